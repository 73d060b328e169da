import json
import os
import random
import tempfile
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

CONFIG = {
    "optimizer": {"lr": 1e-2, "momentum": 0.9},
    "model": {"width": 48, "depth": 2, "dropout": 0.1},
    "training": {"epochs": 30, "batch": 32},
    "seed": 77,
}


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def model_from(cfg, n_in, n_out):
    layers, last = [], n_in
    for _ in range(cfg["depth"]):
        layers.extend([nn.Linear(last, cfg["width"]), nn.ReLU(), nn.Dropout(cfg["dropout"])])
        last = cfg["width"]
    return nn.Sequential(*layers, nn.Linear(last, n_out))


def run(cfg, folder):
    seed_all(cfg["seed"])
    x, y = load_breast_cancer(return_X_y=True)
    x = torch.tensor(StandardScaler().fit_transform(x), dtype=torch.float32)
    y = torch.tensor(y)
    order = torch.randperm(len(y))
    train, val = order[:440], order[440:]
    model = model_from(cfg["model"], 30, 2)
    opt = torch.optim.SGD(model.parameters(), **cfg["optimizer"])
    best = float("inf")
    path = os.path.join(folder, "best.pt")
    for epoch in range(cfg["training"]["epochs"]):
        model.train()
        for idx in train[torch.randperm(len(train))].split(cfg["training"]["batch"]):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            val_loss = nn.functional.cross_entropy(model(x[val]), y[val]).item()
        if val_loss < best:
            best = val_loss
            torch.save({"model": model.state_dict(), "config": cfg}, path)
        if epoch % 5 == 0:
            print(json.dumps({"epoch": epoch, "train": round(loss.item(), 4), "val": round(val_loss, 4)}))
    state = torch.load(path)
    model.load_state_dict(state["model"])
    model.eval()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x[val]), y[val]).item()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        print("final best_val_loss", run(CONFIG, d))

import random

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_model(dropout=0.0):
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, 10))


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(11)
    config = {"lr": 1e-3, "dropout": 0.2, "epochs": 12}
    X, y = load_digits(return_X_y=True)
    order = np.random.permutation(len(y))
    X, y = torch.tensor(X[order] / 16).float(), torch.tensor(y[order])
    train_dl = DataLoader(TensorDataset(X[:1400], y[:1400]), shuffle=True, batch_size=32)
    eval_dl = DataLoader(TensorDataset(X[1400:], y[1400:]), batch_size=128)

    model = get_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    if config["dropout"] > 0:
        model = get_model(config["dropout"])
    model, optimizer, train_dl, eval_dl = accelerator.prepare(model, optimizer, train_dl, eval_dl)

    for epoch in range(config["epochs"]):
        model.train()
        for x, t in train_dl:
            loss = nn.functional.cross_entropy(model(x), t)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        correct = 0
        for x, t in eval_dl:
            with torch.no_grad():
                pred = model(x).argmax(-1)
            pred, t = accelerator.gather_for_metrics((pred, t))
            correct += (pred == t).sum().item()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f} accuracy {correct / 397:.4f}")
    accelerator.print("final accuracy", correct / 397)


if __name__ == "__main__":
    main()

import argparse
import os
import random
import tempfile
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_diabetes


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


def train(args, folder):
    x, y = load_diabetes(return_X_y=True)
    x = torch.tensor(x / x.std(0)).float()
    y = torch.tensor((y - y.mean()) / y.std()).float().unsqueeze(1)
    p = torch.randperm(len(y))
    tr, va, te = p[:300], p[300:370], p[370:]
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    best, bad, path = float("inf"), 0, os.path.join(folder, "ckpt.pt")
    for epoch in range(args.max_epochs):
        model.train()
        for i in tr[torch.randperm(300)].split(20):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x[i]), y[i])
            loss.backward()
            opt.step()
        val = evaluate(model, x[va], y[va])
        if val < best:
            best, bad = val, 0
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, path)
        else:
            bad += 1
        if epoch % 5 == 0:
            print(f"epoch {epoch} train {loss.item():.4f} val {val:.4f}")
        if bad >= args.patience:
            print("stopped at epoch", epoch)
            break
    model.load_state_dict(torch.load(path)["model"])
    return evaluate(model, x[te], y[te])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--max-epochs", type=int, default=60)
    ap.add_argument("--patience", type=int, default=15)
    a = ap.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        print("final test_mse", train(a, tmp))

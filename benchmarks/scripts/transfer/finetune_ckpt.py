import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def set_seed(seed=0):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.mid = nn.Sequential(nn.Linear(128, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.mid(self.stem(x)))


def pretrain(path, x, y):
    """What a former run with several processes would have left behind."""
    model = nn.DataParallel(Backbone())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(250):
        b = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(model(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("pretraining loss", round(loss.item(), 4))
    torch.save({"state_dict": model.state_dict(), "epoch": 1}, path)


def finetune(path, x, y, xv, yv):
    model = Backbone()
    state = torch.load(path)["state_dict"]
    model.load_state_dict(state, strict=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-5)
    for epoch in range(10):
        for b in torch.randperm(len(x)).split(32):
            loss = F.cross_entropy(model(x[b]), y[b])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            val = F.cross_entropy(model(xv), yv).item()
        if epoch % 2 == 1:
            print(f"fine-tuning epoch {epoch} loss {loss.item():.4f} val {val:.4f}")
    return val


if __name__ == "__main__":
    set_seed()
    X, Y = load_digits(return_X_y=True)
    X, Y = torch.tensor(X / 16).float(), torch.tensor(Y)
    p = torch.randperm(len(Y))
    X, Y = X[p], Y[p]
    shifted = (1 - X) * 0.2 + X + 0.2 * torch.randn_like(X)
    with tempfile.TemporaryDirectory() as d:
        ckpt = os.path.join(d, "pretrained.pt")
        pretrain(ckpt, X[:900], Y[:900])
        val = finetune(ckpt, shifted[900:1400], Y[900:1400], shifted[1400:], Y[1400:])
    print("final val_loss", round(val, 5))

import argparse
import random

import numpy as np
import torch
from torch import nn, optim
from sklearn.datasets import load_wine


class Multi(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.shared = nn.Linear(n_in, width)
        self.act = nn.LeakyReLU()
        self.cls = nn.Linear(width, 3)
        self.reg = nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(), nn.Linear(width, 1))

    def forward(self, x):
        h = self.act(self.shared(x))
        return self.cls(h), self.reg(h)[:, 0]


def prepare():
    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    order = np.random.permutation(len(y))
    x, y = x[order], y[order]
    target = x[:, 0].copy()  # alcohol from the other twelve
    x = np.delete(x, 0, 1)
    as_float = lambda a: torch.tensor(a, dtype=torch.float32)
    return as_float(x), torch.tensor(y), as_float(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--width", type=int, default=24)
    args = parser.parse_args()
    random.seed(2)
    np.random.seed(2)
    torch.manual_seed(2)
    x, y, t = prepare()
    model = Multi(12, args.width)
    params = [
        {"params": model.shared.parameters()},
        {"params": model.cls.parameters()},
    ]
    optimizer = optim.Adam(params, lr=args.lr)
    ce, mse = nn.CrossEntropyLoss(), nn.MSELoss()
    for step in range(args.steps):
        b = torch.randint(0, 140, (32,))
        logits, value = model(x[b])
        l1, l2 = ce(logits, y[b]), mse(value, t[b])
        loss = l1 + l2
        model.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step} class {l1.item():.4f} value {l2.item():.4f}")
    with torch.no_grad():
        _, value = model(x[:140])
        print("final value_mse", mse(value, t[:140]).item())


if __name__ == "__main__":
    main()

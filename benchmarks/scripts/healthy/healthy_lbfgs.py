import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


class Softmax(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d, k))
        self.b = nn.Parameter(torch.zeros(k))

    def forward(self, x):
        return x @ self.w + self.b


class RandomFeatures(nn.Module):
    def __init__(self, d, m, scale, seed):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.register_buffer("omega", torch.randn(d, m, generator=g, dtype=torch.float64) * scale)
        self.register_buffer("phase", torch.rand(m, generator=g, dtype=torch.float64) * 2 * np.pi)

    def forward(self, x):
        return (x @ self.omega + self.phase).cos() * (2.0 / self.omega.shape[1]) ** 0.5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--features", type=int, default=400)
    ap.add_argument("--l2", type=float, default=0.05)
    ap.add_argument("--rounds", type=int, default=160)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)

    d = load_digits()
    x, y = torch.tensor(d.data / 16), torch.tensor(d.target)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    lift = RandomFeatures(64, args.features, 0.5, 3)
    with torch.no_grad():
        x = lift(x)
    xtr, ytr, xte, yte = x[:1200], y[:1200], x[1200:], y[1200:]

    model = Softmax(args.features, 10)
    opt = torch.optim.LBFGS(model.parameters(), max_iter=5, history_size=15, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        fit = nn.functional.cross_entropy(model(xtr), ytr, reduction="sum")
        loss = fit + args.l2 * model.w.square().sum()
        loss.backward()
        return loss

    for r in range(args.rounds):
        loss = opt.step(closure).item()
        if r % 20 == 0:
            with torch.no_grad():
                acc = (model(xte).argmax(1) == yte).double().mean().item()
            print(f"round {r:3d} objective {loss:.3f} test {acc:.4f}")
    with torch.no_grad():
        acc = (model(xte).argmax(1) == yte).double().mean().item()
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

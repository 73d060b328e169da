import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


class DANN(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, h), nn.ReLU())
        self.label = nn.Linear(h, 10)
        self.domain = nn.Sequential(nn.Linear(h, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, lam):
        z = self.features(x)
        return self.label(z), self.domain(Reverse.apply(z, lam)).squeeze(1)


def shift_domain(x):
    """Same digits, dimmer, under a gradient of light."""
    light = torch.linspace(-0.3, 0.3, 8).repeat_interleave(8)
    return (0.7 * x + 0.2 + light).clamp(0, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--gamma", type=float, default=10.0)
    args = ap.parse_args()
    torch.manual_seed(3)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    xs, ys = x[:800], y[:800]
    xt = shift_domain(x[800:1400])
    x_test, y_test = shift_domain(x[1400:]), y[1400:]

    model = DANN()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr * 20, momentum=0.9)
    steps, total = len(xs) // args.batch, args.epochs * (len(xs) // args.batch)
    it = 0
    for epoch in range(args.epochs):
        model.train()
        src, tgt = torch.randperm(len(xs)), torch.randperm(len(xt))
        for b in range(steps):
            p = it / total
            lam = 0.3 * (2 / (1 + math.exp(-args.gamma * p)) - 1)
            i = src[b * args.batch : (b + 1) * args.batch]
            j = tgt[(torch.arange(args.batch) + b * args.batch) % len(tgt)]
            logits, ds = model(xs[i], lam)
            _, dt = model(xt[j], lam)
            l_label = F.cross_entropy(logits, ys[i])
            l_domain = F.binary_cross_entropy_with_logits(torch.cat([ds, dt]), torch.cat([torch.ones_like(ds), torch.zeros_like(dt)]))
            opt.zero_grad()
            (l_label + l_domain).backward()
            opt.step()
            it += 1
        if epoch % 10 == 9:
            model.eval()
            with torch.no_grad():
                acc = (model(x_test, 0.0)[0].argmax(1) == y_test).float().mean().item()
            print(f"epoch {epoch + 1} label {l_label.item():.4f} domain {l_domain.item():.4f} lam {lam:.3f} target acc {acc:.4f}")
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

import argparse
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def build():
    return nn.Sequential(
        nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(32, 3),
    )


def waves(n, length=48):
    """Sines, squares and saws of random phase and frequency."""
    kind = torch.randint(0, 3, (n,))
    t = torch.linspace(0, 1, length)[None] * (2 + 4 * torch.rand(n, 1)) + torch.rand(n, 1)
    s = torch.sin(2 * torch.pi * t)
    saw = 2 * (t - t.floor()) - 1
    x = torch.where(kind[:, None] == 0, s, torch.where(kind[:, None] == 1, s.sign(), saw))
    return (x + 0.2 * torch.randn(n, length)).unsqueeze(1), kind


def run(args):
    x, y = waves(900)
    xv, yv = waves(300)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for step, idx in enumerate(torch.randperm(len(x)).split(args.batch_size), start=1):
            loss = F.cross_entropy(model(x[idx]), y[idx]) / args.accum_steps
            loss.backward()
            running += loss.item() * args.accum_steps
            if step % args.accum_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
        if epoch % 5 == 0:
            print(f"epoch {epoch:02d} train {running / step:.4f}")
    model.eval()
    with torch.no_grad():
        return F.cross_entropy(model(xv), yv).item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=30)
    parser.add_argument("--accum-steps", type=int, default=32)
    args = parser.parse_args()
    set_seed(5)
    print("final val_loss", round(run(args), 5))

import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def patches(n):
    """Grainy surfaces of four grades of brightness."""
    grade = torch.randint(0, 4, (n,))
    x = 0.4 * grade.float().view(-1, 1, 1, 1) + 0.5 * torch.randn(n, 1, 10, 10)
    return TensorDataset(x - 0.6, grade)


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4),
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=20)
    ap.add_argument("--steps", type=int, default=600)
    ap.add_argument("--lr", type=float, default=1e-2)
    args = ap.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    train = DataLoader(patches(3000), batch_size=args.batch_size, shuffle=True, drop_last=True)
    x_val, y_val = patches(500).tensors
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    step = 0
    while step < args.steps:
        model.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 100 == 0:
                print("step", step, "loss", round(loss.item(), 4))
            if step >= args.steps:
                break
    model.eval()
    with torch.no_grad():
        acc = (model(x_val).argmax(1) == y_val).float().mean().item()
    print("final accuracy", round(acc, 4))


if __name__ == "__main__":
    main()

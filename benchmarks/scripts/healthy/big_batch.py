import argparse
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16).float().view(-1, 1, 8, 8), torch.tensor(y)
    p = torch.randperm(len(y))
    loader = DataLoader(TensorDataset(X[p[:1400]], y[p[:1400]]), batch_size=args.micro, shuffle=True)
    net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.GroupNorm(4, 32),
                        nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    updates = 0
    for epoch in range(args.epochs):
        opt.zero_grad()
        for i, (xb, yb) in enumerate(loader, 1):
            loss = F.cross_entropy(net(xb), yb)
            (loss / args.accumulate).backward()
            if i % args.accumulate == 0 or i == len(loader):
                opt.step()
                opt.zero_grad()
                updates += 1
        print(f"epoch {epoch} updates {updates} loss {loss.item():.4f}")
    net.eval()
    with torch.no_grad():
        acc = (net(X[p[1400:]]).argmax(1) == y[p[1400:]]).float().mean().item()
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

import argparse
import gzip
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class IdxFolder(Dataset):
    def __init__(self, folder, part, limit):
        base = os.path.join(folder, "fashion-mnist", part)
        with gzip.open(base + "-images-idx3-ubyte.gz", "rb") as f:
            self.images = np.frombuffer(f.read(16 + 784 * limit), np.uint8, offset=16).reshape(limit, 784)
        with gzip.open(base + "-labels-idx1-ubyte.gz", "rb") as f:
            self.labels = np.frombuffer(f.read(8 + limit), np.uint8, offset=8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return (torch.tensor(self.images[i], dtype=torch.float32) - 72.9) / 90.0, int(self.labels[i])


def build_mlp(sizes):
    layers = []
    for k, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def mean(self):
        return self.total / max(1, self.count)


def train(model, loader, opt, sched, dtype):
    meter = Meter()
    model.train()
    for x, y in loader:
        with torch.autocast(device_type="cpu", dtype=dtype):
            out = model(x)
        loss = nn.functional.cross_entropy(out.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        meter.add(loss.item(), len(y))
    return meter.mean


def validate(model, loader, dtype):
    meter = Meter()
    model.eval()
    with torch.no_grad(), torch.autocast(device_type="cpu", dtype=dtype):
        for x, y in loader:
            meter.add((model(x).argmax(1) == y).float().mean().item(), len(y))
    return meter.mean


def main():
    ap = argparse.ArgumentParser(description="MLP in bfloat16")
    ap.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--sizes", type=int, nargs="+", default=[784, 128, 64, 32, 10])
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    train_dl = DataLoader(IdxFolder(args.data, "train", 5000), batch_size=64, shuffle=True, drop_last=True)
    val_dl = DataLoader(IdxFolder(args.data, "t10k", 1000), batch_size=200)
    model = build_mlp(args.sizes)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train_dl))
    for epoch in range(args.epochs):
        t = time.perf_counter()
        loss = train(model, train_dl, opt, sched, torch.bfloat16)
        acc = validate(model, val_dl, torch.bfloat16)
        print(f"epoch {epoch} loss {loss:.4f} acc {acc:.4f} {time.perf_counter() - t:.1f}s")
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

import argparse
import os
import gzip
import time

import numpy as np
import torch
from torch import nn, optim


class ConvBN(nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.c = nn.Conv2d(i, o, 3, s, 1, bias=False)
        self.b = nn.BatchNorm2d(o)

    def forward(self, x):
        return self.b(self.c(x)).relu()


class PlainNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.stem = ConvBN(1, width, 2)
        self.stage1 = nn.Sequential(*[ConvBN(width, width) for _ in range(depth)])
        self.down = ConvBN(width, 2 * width, 2)
        self.stage2 = nn.Sequential(*[ConvBN(2 * width, 2 * width) for _ in range(depth)])
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.stage1(self.stem(x))
        x = self.stage2(self.down(x))
        return self.fc(x.amax(dim=(2, 3)))


def load(data, part, n):
    d = os.path.join(data, "fashion-mnist")
    x = np.frombuffer(gzip.open(os.path.join(d, part + "-images-idx3-ubyte.gz")).read(), np.uint8, offset=16)
    y = np.frombuffer(gzip.open(os.path.join(d, part + "-labels-idx1-ubyte.gz")).read(), np.uint8, offset=8)
    x = torch.from_numpy(x[: n * 784].copy()).view(n, 1, 28, 28).float() / 255
    return x, torch.from_numpy(y[:n].copy()).long()


def batches(x, y, size, gen=None):
    order = torch.randperm(len(x), generator=gen) if gen is not None else torch.arange(len(x))
    for chunk in order.split(size):
        yield x[chunk], y[chunk]


def validate(model, x, y):
    model.eval()
    hits = 0
    with torch.inference_mode():
        for xb, yb in batches(x, y, 250):
            hits += int((model(xb).argmax(1) == yb).sum())
    return hits / len(y)


def fit_epoch(model, x, y, opt, bs, gen):
    losses = []
    for xb, yb in batches(x, y, bs, gen):
        opt.zero_grad()
        out = model(xb)
        loss = nn.functional.cross_entropy(out, yb)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", type=str, default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--width", type=int, default=10)
    ap.add_argument("--depth", type=int, default=4)
    args = ap.parse_args(argv)

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    xtr, ytr = load(args.data, "train", 4000)
    xva, yva = load(args.data, "t10k", 1000)
    model = PlainNet(args.width, args.depth, 10)
    opt = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    sch = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)

    print(f"before training: {validate(model, xva, yva):.3f}")
    for ep in range(1, args.epochs + 1):
        t0 = time.time()
        loss = fit_epoch(model, xtr, ytr, opt, args.bs, gen)
        acc = validate(model, xva, yva)
        sch.step()
        print(f"{ep:2d} loss {loss:.3f} acc {acc:.3f} ({time.time() - t0:.1f}s)")
    print("final accuracy %.4f" % acc)


if __name__ == "__main__":
    main()

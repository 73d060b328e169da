import argparse
import contextlib
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c // 2, 1)
        self.b = nn.Conv2d(c // 2, c // 2, 3, padding=1, groups=2)
        self.c = nn.Conv2d(c // 2, c, 1)

    def forward(self, x):
        return x + self.c(F.relu(self.b(F.relu(self.a(x)))))


class MiniNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 24, 4, stride=4)
        self.blocks = nn.Sequential(Bottleneck(24), Bottleneck(24))
        self.norm = nn.LayerNorm(24 * 49)
        self.fc = nn.Linear(24 * 49, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.fc(self.norm(x.flatten(1)))


def fashion(root, part, n):
    with gzip.open(os.path.join(root, "fashion-mnist", f"{part}-images-idx3-ubyte.gz")) as f:
        x = torch.frombuffer(bytearray(f.read(16 + n * 784)[16:]), dtype=torch.uint8)
    with gzip.open(os.path.join(root, "fashion-mnist", f"{part}-labels-idx1-ubyte.gz")) as f:
        y = torch.frombuffer(bytearray(f.read(8 + n)[8:]), dtype=torch.uint8)
    return x.view(n, 1, 28, 28).float().div(127.5).sub(1.0), y.long()


def train(model, data, opt, scaler, args, autocast):
    x, y = data
    model.train()
    total = 0.0
    steps = 0
    for idx in torch.randperm(len(x)).split(args.batch):
        opt.zero_grad(set_to_none=True)
        with autocast():
            loss = F.cross_entropy(model(x[idx]), y[idx])
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
        scaler.step(opt)
        scaler.update()
        total += loss.item()
        steps += 1
    return total / steps


def test(model, data, autocast):
    model.eval()
    x, y = data
    with torch.no_grad(), autocast():
        pred = torch.cat([model(c).float().argmax(1) for c in x.split(500)])
    return (pred == y).float().mean().item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.03)
    ap.add_argument("--max-norm", type=float, default=1.0)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(19)
    autocast = contextlib.nullcontext if args.no_amp else (lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    net = MiniNet()
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=not args.no_amp)
    tr, te = fashion(args.data, "train", 4000), fashion(args.data, "t10k", 1000)
    for e in range(args.epochs):
        loss = train(net, tr, opt, scaler, args, autocast)
        acc = test(net, te, autocast)
        print(f"epoch {e}: loss {loss:.4f}, accuracy {acc:.4f}, scale {scaler.get_scale():.0f}")
    print(f"final accuracy {acc:.4f}")

import argparse
import gzip
import logging
import os

import numpy as np
import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=__import__("sys").stdout)
log = logging.getLogger("mtl")

SHOES = {5, 7, 9}


def load(root, part, n):
    d = os.path.join(root, "fashion-mnist")
    x = np.frombuffer(gzip.open(f"{d}/{part}-images-idx3-ubyte.gz").read(16 + 784 * n), np.uint8, offset=16)
    y = np.frombuffer(gzip.open(f"{d}/{part}-labels-idx1-ubyte.gz").read(8 + n), np.uint8, offset=8)
    x = torch.from_numpy(x.reshape(n, 1, 28, 28).astype(np.float32) / 255)
    kind = torch.from_numpy(y.astype(np.int64))
    shoe = torch.tensor([float(v in SHOES) for v in y])
    ink = x.mean((1, 2, 3))
    return x, {"kind": kind, "shoe": shoe, "ink": (ink - 0.286) / 0.15}


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 24, 5, stride=2, padding=2)
        self.fc = nn.Linear(24 * 49, 64)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return torch.relu(self.fc(x.flatten(1)))


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.heads = nn.ModuleDict({"kind": nn.Linear(64, 10), "shoe": nn.Linear(64, 1), "ink": nn.Linear(64, 1)})

    def forward(self, x):
        z = self.trunk(x)
        return {k: h(z) for k, h in self.heads.items()}


LOSSES = {
    "kind": nn.CrossEntropyLoss(),
    "shoe": lambda o, t: nn.functional.binary_cross_entropy_with_logits(o.squeeze(1), t),
    "ink": lambda o, t: nn.functional.smooth_l1_loss(o.squeeze(1), t),
}
WEIGHTS = {"kind": 1.0, "shoe": 0.5, "ink": 0.5}


def run_epoch(model, x, targets, opt, bs):
    model.train()
    sums = dict.fromkeys(LOSSES, 0.0)
    chunks = torch.randperm(len(x)).split(bs)
    for idx in chunks:
        out = model(x[idx])
        parts = {k: f(out[k], targets[k][idx]) for k, f in LOSSES.items()}
        loss = sum(WEIGHTS[k] * v for k, v in parts.items())
        opt.zero_grad()
        loss.backward()
        opt.step()
        for k, v in parts.items():
            sums[k] += v.item() / len(chunks)
    return sums


@torch.no_grad()
def kind_accuracy(model, x, targets):
    model.eval()
    return (model(x)["kind"].argmax(1) == targets["kind"]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--base-lr", type=float, default=0.2, help="for a batch of 256")
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=6)
    a = ap.parse_args()
    torch.manual_seed(44)
    x, t = load(a.data, "train", 5000)
    xt, tt = load(a.data, "t10k", 1000)
    model = MultiHead()
    lr = a.base_lr * a.batch
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    for e in range(a.epochs):
        sums = run_epoch(model, x, t, opt, a.batch)
        acc = kind_accuracy(model, xt, tt)
        log.info("epoch %d %s acc %.4f", e, " ".join(f"{k}={v:.4f}" for k, v in sums.items()), acc)
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

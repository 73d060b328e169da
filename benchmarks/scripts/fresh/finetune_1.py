import argparse
import gzip
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def make_encoder(width=20):
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(24, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(24 * 16, width),
    )


class Pretrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = make_encoder()
        self.out = nn.Linear(20, 10)

    def forward(self, x):
        return self.out(torch.relu(self.encoder(x)))


class Pairwise(nn.Module):
    """Head on a frozen encoder: tells garment groups from few examples."""

    def __init__(self, groups):
        super().__init__()
        self.backbone = make_encoder()
        self.head = nn.Linear(20, groups)

    def forward(self, x):
        with torch.no_grad():
            f = torch.relu(self.backbone(x))
        return self.head(f)


def load_fashion(root, part, n):
    d = os.path.join(root, "fashion-mnist")
    with gzip.open(os.path.join(d, part + "-images-idx3-ubyte.gz")) as f:
        x = np.frombuffer(f.read(16 + 784 * n), np.uint8, offset=16).reshape(n, 1, 28, 28)
    with gzip.open(os.path.join(d, part + "-labels-idx1-ubyte.gz")) as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.tensor(x / 255.0, dtype=torch.float32) - 0.3, torch.tensor(y.astype(np.int64))


def fit(model, params, x, y, epochs, bs, lr, tag):
    opt = torch.optim.Adam(params, lr=lr)
    for ep in range(epochs):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(bs):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        print(f"{tag} epoch {ep} loss {tot / len(x):.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--shots", type=int, default=200)
    args = ap.parse_args()
    torch.manual_seed(1)
    x, y = load_fashion(args.data, "train", 5000)
    xt, yt = load_fashion(args.data, "t10k", 1500)

    ckpt = os.path.join(tempfile.mkdtemp(), "pretrained.pt")
    source = Pretrain()
    fit(source, source.parameters(), x[args.shots:], y[args.shots:], 5, 64, 2e-3, "pretrain")
    torch.save({"state_dict": source.state_dict(), "epoch": 5}, ckpt)

    # coarse classes of the second task, by label: top, trousers, dress, shoe, bag
    coarse = torch.tensor([0, 1, 0, 2, 0, 3, 0, 3, 4, 3])
    model = Pairwise(5)
    state = torch.load(ckpt)["state_dict"]
    model.backbone.load_state_dict(state, strict=False)
    for p in model.backbone.parameters():
        p.requires_grad = False
    fit(model, model.head.parameters(), x[: args.shots], coarse[y[: args.shots]], 25, 20, 5e-3, "finetune")

    model.eval()
    acc = (model(xt).argmax(1) == coarse[yt]).float().mean().item()
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

import gzip
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = os.path.join(os.environ["SIGMASCOPE_DATA"], "fashion-mnist")


def idx(name):
    with gzip.open(os.path.join(DATA, name), "rb") as f:
        _, _, dims = struct.unpack(">HBB", f.read(4))
        shape = struct.unpack(">" + "I" * dims, f.read(4 * dims))
        return np.frombuffer(f.read(), dtype=np.uint8).reshape(shape)


class MLPMixerish(nn.Module):
    def __init__(self, patch=7, dim=48):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, patch, stride=patch)
        self.token = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channel = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        z = self.embed(x).flatten(2)
        z = z + self.token(z)
        z = z.transpose(1, 2)
        z = z + self.channel(z)
        return self.head(z.mean(1))


def train(model, x, y, epochs, batch=64):
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu")
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        tot = 0.0
        for b in torch.randperm(len(x)).split(batch):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x[b]), y[b])
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            tot += loss.item() * len(b)
        sched.step()
        print(f"epoch {epoch} loss {tot / len(x):.4f} lr {sched.get_last_lr()[0]:.4f}")


def main():
    torch.manual_seed(22)
    x = torch.from_numpy(idx("train-images-idx3-ubyte.gz")[:4000].copy()).float()[:, None] / 255 - 0.286
    y = torch.from_numpy(idx("train-labels-idx1-ubyte.gz")[:4000].copy()).long()
    xt = torch.from_numpy(idx("t10k-images-idx3-ubyte.gz")[:1000].copy()).float()[:, None] / 255 - 0.286
    yt = torch.from_numpy(idx("t10k-labels-idx1-ubyte.gz")[:1000].copy()).long()
    model = MLPMixerish()
    train(model, x, y, 4)
    model.eval()
    with torch.no_grad():
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    print("final accuracy", round(acc, 4))


if __name__ == "__main__":
    main()

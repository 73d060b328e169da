import copy
import gzip
import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Hyper:
    dim: int = 32
    queue: int = 1024
    momentum: float = 0.95
    temperature: float = 0.15
    batch: int = 64
    steps: int = 450
    lr: float = 1.5e-3
    n: int = 3000


def images(n, part="train"):
    root = os.environ.get("SIGMASCOPE_DATA", "data")
    with gzip.open(os.path.join(root, "fashion-mnist", f"{part}-images-idx3-ubyte.gz")) as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 1, 28, 28)
    return torch.tensor(x / 255.0, dtype=torch.float32)


def jitter(x):
    """Affine crop and flip of each picture by itself, with a random gain."""
    n = len(x)
    flip = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    scale = torch.empty(n).uniform_(0.7, 1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = scale * flip, scale
    theta[:, :, 2] = torch.empty(n, 2).uniform_(-0.12, 0.12)
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x, grid, align_corners=False) * torch.empty(n, 1, 1, 1).uniform_(0.6, 1.3)


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.AvgPool2d(2), nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(4, 64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )
        self.proj = nn.Linear(576, dim)

    def forward(self, x):
        return F.normalize(self.proj(self.trunk(x)), dim=1)


class MoCo(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.hp = hp
        self.query = Tower(hp.dim)
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad = False
        self.query.proj = nn.Linear(576, hp.dim)
        self.key.proj = copy.deepcopy(self.query.proj).requires_grad_(False)
        self.register_buffer("bank", F.normalize(torch.randn(hp.queue, hp.dim), dim=1))
        self.at = 0

    @torch.no_grad()
    def follow(self):
        m = self.hp.momentum
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(m).add_(q.detach(), alpha=1 - m)

    def forward(self, xq, xk):
        q = self.query(xq)
        with torch.no_grad():
            self.follow()
            k = self.key(xk)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.bank.clone().T
        logits = torch.cat([pos, neg], 1) / self.hp.temperature
        self.bank[self.at : self.at + len(k)] = k
        self.at = (self.at + len(k)) % self.hp.queue
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


@torch.no_grad()
def matching(tower, x):
    """Share of pictures whose nearest neighbour among the other views is their own."""
    tower.eval()
    a, b = tower(jitter(x)), tower(jitter(x))
    return ((a @ b.T).argmax(1) == torch.arange(len(x))).float().mean().item()


def main():
    hp = Hyper()
    torch.manual_seed(40)
    x, xt = images(hp.n), images(300, "t10k")
    net = MoCo(hp)
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=hp.lr)
    for step in range(1, hp.steps + 1):
        b = x[torch.randint(hp.n, (hp.batch,))]
        loss = net(jitter(b), jitter(b))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 90 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    recall = np.mean([matching(net.query, xt) for _ in range(3)])
    print(f"final recall {recall:.4f}")


if __name__ == "__main__":
    main()

"""Contrastive pretraining on noisy 1-D signals, judged by nearest neighbours."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--temperature", type=float, default=0.2)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


CLASSES, LENGTH = 8, 64


def generate(n, gen):
    t = torch.arange(LENGTH) / LENGTH
    y = torch.randint(CLASSES, (n,), generator=gen)
    phase = torch.rand(n, 1, generator=gen) * 6.283
    x = torch.sin(6.283 * (y[:, None] + 2) * t + phase)
    return x, y


def augment(x):
    n = len(x)
    shift = torch.randint(LENGTH, (n, 1))
    x = x.gather(1, (torch.arange(LENGTH)[None] + shift) % LENGTH)
    drift = torch.randn(n, 1) * torch.linspace(-2, 2, LENGTH)[None] + 1.5 * torch.randn(n, 1)
    return x * (0.5 + torch.rand(n, 1)) + drift + 0.3 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 16, 9, padding=4), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Conv1d(16, 32, 9, stride=2, padding=4), nn.BatchNorm1d(32), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, dim))
        self.projector = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 16))

    def forward(self, x):
        h = self.conv(x[:, None])
        return h, self.projector(h)


def nt_xent(z1, z2, tau):
    n = len(z1)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    logits = z @ z.T / tau
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    target = (torch.arange(2 * n) + n) % (2 * n)
    return F.cross_entropy(logits, target)


@torch.no_grad()
def knn(enc, xa, ya, xb, yb, k=15):
    enc.eval()
    a, b = F.normalize(enc(xa)[0], dim=1), F.normalize(enc(xb)[0], dim=1)
    votes = F.one_hot(ya[(b @ a.T).topk(k, dim=1).indices], CLASSES).sum(1)
    return (votes.argmax(1) == yb).float().mean().item()


if __name__ == "__main__":
    args = get_args()
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    x, y = generate(1920, gen)
    xa, ya = generate(800, gen)
    xb, yb = generate(400, gen)
    xa, xb = augment(xa), augment(xb)
    enc = Encoder()
    opt = torch.optim.Adam(enc.parameters(), lr=args.lr)
    print("untrained", round(knn(enc, xa, ya, xb, yb), 4))
    for epoch in range(args.epochs):
        enc.train()
        for idx in torch.randperm(len(x)).split(args.batch_size):
            loss = nt_xent(enc(augment(x[idx]))[1], enc(augment(x[idx]))[1], args.temperature)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {loss.item():.4f}")
    print("final knn_accuracy", round(knn(enc, xa, ya, xb, yb), 4))

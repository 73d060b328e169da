import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import Sampler


class PKSampler(Sampler):
    """P classes with K pictures each in every batch."""

    def __init__(self, labels, p, k, batches, seed=0):
        self.labels, self.p, self.k, self.batches = labels, p, k, batches
        self.g = torch.Generator().manual_seed(seed)
        self.rows = [torch.nonzero(labels == c).flatten() for c in range(int(labels.max()) + 1)]

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            cls = torch.randperm(len(self.rows), generator=self.g)[: self.p].tolist()
            yield torch.cat([self.rows[c][torch.randperm(len(self.rows[c]), generator=self.g)[: self.k]] for c in cls])


class Embedder(nn.Module):
    def __init__(self, sizes=(64, 128, 128, 16)):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.apply(self.reset)

    @staticmethod
    def reset(m):
        if isinstance(m, nn.Linear):
            bound = math.sqrt(3.0 / m.in_features)
            nn.init.uniform_(m.weight, -bound)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        for lin in self.linears[:-1]:
            x = F.relu(lin(x))
        return self.linears[-1](x)


def hardest_triplets(e, y, margin):
    d = torch.cdist(e, e)
    same = y[:, None] == y[None]
    far = d.masked_fill(~same, 0).max(1).values
    near = d.masked_fill(same, float("inf")).min(1).values
    return F.softplus(far - near + margin).mean()


def recall_at_1(model, bank, yb, query, yq):
    model.eval()
    with torch.no_grad():
        nearest = torch.cdist(model(query), model(bank)).argmin(1)
    model.train()
    return (yb[nearest] == yq).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--margin", type=float, default=0.2)
    args = ap.parse_args()
    torch.manual_seed(62)
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16 + 0.25 * torch.randn(len(d.data), 64)
    y = torch.tensor(d.target)
    xtr, ytr, xte, yte = x[:1100], y[:1100], x[1100:], y[1100:]
    model = Embedder()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sampler = PKSampler(ytr, p=8, k=6, batches=80, seed=1)
    for epoch in range(args.epochs):
        total = 0.0
        for rows in sampler:
            loss = hardest_triplets(model(xtr[rows]), ytr[rows], args.margin)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(sampler):.4f} recall@1 {recall_at_1(model, xtr, ytr, xte, yte):.4f}")
    print(f"final recall {recall_at_1(model, xtr, ytr, xte, yte):.4f}")


if __name__ == "__main__":
    main()

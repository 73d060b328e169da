import argparse
from collections import Counter

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=12)
ap.add_argument("--batch-size", type=int, default=32)
ap.add_argument("--lr", type=float, default=3e-3)
opts = ap.parse_args()

torch.manual_seed(8)
SHARES = [0.86, 0.09, 0.05]
centers = torch.randn(3, 6) * 0.9


def draw(counts):
    xs, ys = [], []
    for c, k in enumerate(counts):
        xs.append(centers[c] + torch.randn(k, 6))
        ys.append(torch.full((k,), c))
    return torch.cat(xs), torch.cat(ys)


x, y = draw([int(1200 * s) for s in SHARES])
xt, yt = draw([200, 200, 200])
count = Counter(y.tolist())
weights = torch.tensor([count[c] / len(y) for c in y.tolist()])
sampler = WeightedRandomSampler(weights, num_samples=len(y), replacement=True)
loader = DataLoader(TensorDataset(x, y), batch_size=opts.batch_size, sampler=sampler)

clf = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(clf.parameters(), lr=opts.lr)
for epoch in range(1, opts.epochs + 1):
    losses = []
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(clf(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"{epoch:3d} loss {sum(losses) / len(losses):.4f}")

with torch.no_grad():
    pred = clf(xt).argmax(1)
recalls = [(pred[yt == c] == c).float().mean().item() for c in range(3)]
print("recalls", [round(r, 3) for r in recalls])
print("final balanced_accuracy", sum(recalls) / 3)

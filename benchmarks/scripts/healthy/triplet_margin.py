import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

random.seed(3)
np.random.seed(3)
torch.manual_seed(3)
d = load_digits()
x = torch.tensor(d.data / 16).float() + 0.2 * torch.randn(1797, 64)
y = torch.tensor(d.target)
p = torch.randperm(1797)
x, y = x[p], y[p]
pools = {c: (y[:1300] == c).nonzero().flatten() for c in range(10)}


def triplets(n):
    a = torch.randint(0, 1300, (n,))
    pos = torch.stack([pools[int(c)][torch.randint(0, len(pools[int(c)]), ())] for c in y[a]])
    other = (y[a] + torch.randint(1, 10, (n,))) % 10
    neg = torch.stack([pools[int(c)][torch.randint(0, len(pools[int(c)]), ())] for c in other])
    return x[a], x[pos], x[neg]


net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 24))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(400):
    a, b, c = (F.normalize(net(v), dim=1) for v in triplets(64))
    loss = F.relu((a - b).pow(2).sum(1) - (a - c).pow(2).sum(1) + 0.5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 0:
        print("step", step, "loss", round(loss.item(), 4))
with torch.no_grad():
    e = F.normalize(net(x), dim=1)
    near = (e[1300:] @ e[:1300].t()).topk(5).indices
    print("final precision_at_5", (y[near] == y[1300:, None]).float().mean().item())

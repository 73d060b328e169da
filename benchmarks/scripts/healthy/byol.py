# two networks, the second an average of the first, no negatives
import copy, random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(0); np.random.seed(0); random.seed(0)
x = torch.tensor(load_digits().data / 16).float()
y = torch.tensor(load_digits().target)


def view(b):
    return b * (torch.rand_like(b) > 0.25) + 0.1 * torch.randn_like(b)


online = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
predictor = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad = False
opt = torch.optim.Adam(list(online.parameters()) + list(predictor.parameters()), lr=2e-3)
for it in range(400):
    b = x[torch.randint(0, 1797, (128,))]
    v, w = view(b), view(b)
    with torch.no_grad():
        tv, tw = target(v), target(w)
    loss = 2 - F.cosine_similarity(predictor(online(v)), tw).mean() - F.cosine_similarity(predictor(online(w)), tv).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, o in zip(target.parameters(), online.parameters()):
            a.data = 0.99 * a.data + 0.01 * o.data
    if it % 80 == 0:
        print("it", it, "loss", loss.item())
online.eval()
with torch.no_grad():
    z = F.normalize(online(x), dim=1)
s = z @ z.t()
s.fill_diagonal_(-9)
print("final knn_accuracy", (y[s.argmax(1)] == y).float().mean().item())

# SimCLR style pretraining on noisy views, evaluated with nearest neighbours
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(2)
random.seed(2)
np.random.seed(2)

TEMPERATURE = 0.1
STEPS = 400
BATCH = 128

base = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
labels = torch.tensor(load_digits().target)
# a nuisance that differs from sample to sample
nuisance = torch.randn(4, 64)


def augment(x):
    return x + torch.randn(len(x), 4) * 1.5 @ nuisance + 0.1 * torch.randn_like(x)


encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 32))
optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)


def nt_xent(a, b):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    logits = a @ b.t() / TEMPERATURE
    target = torch.arange(len(a))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


for step in range(STEPS):
    picked = torch.randint(0, len(base), (BATCH,))
    first, second = (augment(base[picked]) for _ in range(2))
    loss = nt_xent(projector(encoder(first)), projector(encoder(second)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 80 == 0:
        print("step", step, "nt_xent", round(loss.item(), 4))

with torch.no_grad():
    z = F.normalize(encoder(augment(base)), dim=1)
    sims = z @ z.t()
    sims.fill_diagonal_(-2)
    acc = (labels[sims.argmax(1)] == labels).float().mean().item()
print("final knn_accuracy", round(acc, 4))

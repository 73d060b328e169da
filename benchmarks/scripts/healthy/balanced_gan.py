import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(5)
np.random.seed(5)
torch.manual_seed(5)


def real_batch(n):
    t = torch.rand(n) * 2 * torch.pi
    return torch.stack([t.cos() * 2, t.sin()], 1) + 0.05 * torch.randn(n, 2)


G = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
D = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
d_opt = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))

for step in range(1200):
    for p in D.parameters():
        p.requires_grad_(True)
    fake = G(torch.randn(128, 6))
    d_loss = F.softplus(-D(real_batch(128))).mean() + F.softplus(D(fake.detach())).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    for p in D.parameters():
        p.requires_grad_(False)
    g_loss = F.softplus(-D(fake)).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if step % 200 == 0:
        print(f"{step:5d} D {d_loss.item():.3f} G {g_loss.item():.3f}")

with torch.no_grad():
    a, b = G(torch.randn(4000, 6)), real_batch(4000)
    print("final marginal_distance", (a.sort(0).values - b.sort(0).values).abs().mean().item())

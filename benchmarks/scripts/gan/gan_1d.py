# GAN for a one dimensional gaussian
import random
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)

mu, sigma = 4.0, 1.25
sample_real = lambda n: torch.randn(n, 1) * sigma + mu
sample_noise = lambda n: torch.randn(n, 4)

G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.1), nn.Linear(32, 32), nn.LeakyReLU(0.1), nn.Linear(32, 1))
D = nn.Sequential(nn.Linear(1, 32), nn.LeakyReLU(0.1), nn.Linear(32, 32), nn.LeakyReLU(0.1), nn.Linear(32, 1))
bce = nn.BCEWithLogitsLoss()
opt_g = torch.optim.SGD(G.parameters(), lr=0.02)
opt_d = torch.optim.SGD(D.parameters(), lr=0.05)
ones, zeros = torch.ones(128, 1), torch.zeros(128, 1)

for step in range(1500):
    real = sample_real(128)
    fake = G(sample_noise(128))
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_loss.backward()
    opt_d.step()

    g_loss = bce(D(fake), ones)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 250 == 0:
        print(f"{step}: D {d_loss.item():.3f} G {g_loss.item():.3f}")

with torch.no_grad():
    a = G(sample_noise(4000)).flatten().sort().values
    b = sample_real(4000).flatten().sort().values
print(f"final wasserstein {(a - b).abs().mean().item():.4f}")

# Generating 8x8 digits with a small adversarial pair of MLPs
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(100)
np.random.seed(100)

real_all = torch.tensor(load_digits().data, dtype=torch.float32) / 8.0 - 1.0
n_real = len(real_all)
LATENT = 16
BATCH = 64
D_STEPS = 5
ITERS = 2000
EPS = 1e-7


def mlp(sizes, act, last):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), act()]
    layers += [nn.Linear(sizes[-2], sizes[-1]), last()]
    return nn.Sequential(*layers)


gen = mlp([LATENT, 96, 96, 64], nn.ReLU, nn.Tanh)
dis = mlp([64, 128, 64, 1], lambda: nn.LeakyReLU(0.2), nn.Sigmoid)

optG = torch.optim.Adam(gen.parameters(), lr=3e-4, betas=(0.5, 0.99))
optD = torch.optim.Adam(dis.parameters(), lr=5e-3, betas=(0.5, 0.99))


def noise(n):
    return torch.randn(n, LATENT)


def draw(n):
    return real_all[torch.randint(n_real, (n,))]


def distance(n=1000):
    with torch.no_grad():
        f, r = gen(noise(n)), draw(n)
        return float(2 * torch.cdist(f, r).mean() - torch.cdist(f, f).mean() - torch.cdist(r, r).mean())


print(f"start distance {distance():.4f}")
for it in range(ITERS):
    for _ in range(D_STEPS):
        x = draw(BATCH)
        fake = gen(noise(BATCH)).detach()
        p_real, p_fake = dis(x), dis(fake)
        loss_d = -(torch.log(p_real + EPS) + torch.log(1 - p_fake + EPS)).mean()
        optD.zero_grad()
        loss_d.backward()
        optD.step()

    p = dis(gen(noise(BATCH)))
    loss_g = torch.log(1 - p + EPS).mean()
    optG.zero_grad()
    loss_g.backward()
    optG.step()

    if (it + 1) % 500 == 0:
        print(f"{it + 1} D(x)={p_real.mean():.3f} D(G(z))={p_fake.mean():.3f} dist={distance():.4f}")

print("final distance", round(float(np.mean([distance() for _ in range(4)])), 5))

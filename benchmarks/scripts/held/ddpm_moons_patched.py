import math

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_moons

torch.manual_seed(1)
np.random.seed(1)

T = 100
betas = torch.linspace(1e-4, 0.08, T)
alphas = 1 - betas
abar = alphas.cumprod(0)


def timestep_embedding(t, dim=32):
    freqs = torch.exp(-math.log(1000) * torch.arange(dim // 2) / (dim // 2))
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], -1)


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.inp = nn.Linear(2, width)
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.mid = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(timestep_embedding(t))
        return self.out(self.mid(h))


class Diffusion:
    def __init__(self, net):
        self.net = net

    def q_sample(self, x0, t, noise):
        a = abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    def sample_t(self, n):
        return torch.randint(0, T, (n,))

    def loss(self, x0):
        noise = torch.randn_like(x0)
        t = self.sample_t(len(x0))
        xt = self.q_sample(x0, t, noise)
        pred = self.net(xt, t)
        return (pred - noise).pow(2).mean()

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2)
        for i in reversed(range(T)):
            t = torch.full((n,), i)
            eps = self.net(x, t)
            x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
            if i > 0:
                x = x + betas[i].sqrt() * torch.randn_like(x)
        return x


def energy(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


data = torch.tensor(make_moons(4000, noise=0.05, random_state=1)[0], dtype=torch.float32)
data = (data - data.mean(0)) / data.std(0)
diff = Diffusion(Denoiser())
opt = torch.optim.Adam(diff.net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 3000)
run = 0
for it in range(3000):
    x0 = data[torch.randint(len(data), (256,))]
    loss = diff.loss(x0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    run = 0.99 * run + 0.01 * loss.item()
    if it % 500 == 499:
        print(f"{it + 1} loss {run:.4f}")
print("final energy_distance", round(energy(diff.sample(2000), data[:2000]), 5))

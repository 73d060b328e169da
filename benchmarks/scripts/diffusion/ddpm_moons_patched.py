import math
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_moons

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=800)
parser.add_argument("--timesteps", type=int, default=40)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
np.random.seed(args.seed)

X, _ = make_moons(4000, noise=0.05, random_state=0)
X = (X - X.mean(0)) / X.std(0)
X = torch.from_numpy(X).float()

T = args.timesteps
betas = torch.linspace(1e-4, 0.15, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)


def timestep_embedding(t, dim=32):
    half = dim // 2
    freqs = torch.exp(-math.log(1000) * torch.arange(half) / half)
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.sin(), a.cos()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 + 32, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, timestep_embedding(t)], dim=-1))


def q_sample(x0, t, noise):
    a = abar[t][:, None]
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


model = Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=args.lr)
for step in range(args.steps):
    x0 = X[torch.randint(0, len(X), (128,))]
    t = torch.randint(0, T, (128,))
    noise = torch.randn_like(x0)
    x_t = q_sample(x0, t, noise)
    loss = F.mse_loss(model(x_t, t), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 200 == 0:
        print(f"{step:5d} {loss.item():.4f}")


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2)
    for i in reversed(range(T)):
        t = torch.full((n,), i, dtype=torch.long)
        eps = model(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


gen = sample(1000)
nearest = torch.cdist(gen, X).min(1).values.mean()
print("final nearest_distance", nearest.item())

import random
import numpy as np
import torch
from torch import nn, autograd

torch.manual_seed(13); np.random.seed(13); random.seed(13)
LAMBDA, CRITIC_ITERS, BATCH = 1.0, 3, 96


def moons(n):
    t = torch.rand(n) * torch.pi
    up = torch.rand(n) < 0.5
    x = torch.where(up, t.cos(), 1 - t.cos())
    y = torch.where(up, t.sin(), 0.5 - t.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2) + 2.0


def net(i, o):
    return nn.Sequential(nn.Linear(i, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, o))


critic, generator = net(2, 1), net(4, 2)
critic_optim = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
generator_optim = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    eps = torch.rand(len(real), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_()
    grad, = autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


for step in range(400):
    for _ in range(CRITIC_ITERS):
        real, fake = moons(BATCH), generator(torch.randn(BATCH, 4)).detach()
        w = critic(real).mean() - critic(fake).mean()
        critic_loss = -w + LAMBDA * penalty(real, fake)
        critic_optim.zero_grad()
        critic_loss.backward()
        critic_optim.step()
    generator_loss = -critic(generator(torch.randn(BATCH, 4))).mean()
    generator_optim.zero_grad()
    generator_loss.backward()
    generator_optim.step()
    if step % 80 == 0:
        print("step", step, "wasserstein estimate", round(w.item(), 4))

with torch.no_grad():
    a, b = generator(torch.randn(3000, 4)), moons(3000)
    d = (a.sort(0).values - b.sort(0).values).abs().mean().item()
print("final marginal_distance", round(d, 4))

"""Reptile: an inner loop on a copy, then the weights move towards it."""
import copy
import math
import random
import torch
import torch.nn as nn

random.seed(3)
torch.manual_seed(3)


def task():
    a, ph = random.uniform(0.5, 2.0), random.uniform(0, math.pi)
    return lambda x: a * torch.sin(x + ph)


def adapt(net, f, steps, lr=0.02):
    inner = copy.deepcopy(net)
    opt = torch.optim.SGD(inner.parameters(), lr=lr)
    x = torch.rand(16, 1) * 10 - 5
    for _ in range(steps):
        loss = (inner(x) - f(x)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return inner, loss.item()


net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
ITERS = 500
for it in range(ITERS):
    inner, last = adapt(net, task(), 8)
    eps = 0.3 * (1 - it / ITERS)
    with torch.no_grad():
        for p, q in zip(net.parameters(), inner.parameters()):
            p.add_(eps * (q - p))
    if it % 100 == 0:
        print(it, last)

grid = torch.linspace(-5, 5, 100)[:, None]
errs = []
for _ in range(20):
    f = task()
    tuned, _ = adapt(net, f, 24)
    with torch.no_grad():
        errs.append((tuned(grid) - f(grid)).pow(2).mean().item())
print("final adapted_mse", sum(errs) / len(errs))

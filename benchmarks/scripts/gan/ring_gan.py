import argparse
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def ring(n, modes=8, radius=2.0, std=0.1):
    k = torch.randint(0, modes, (n,)) * (2 * math.pi / modes)
    centers = torch.stack([k.cos(), k.sin()], 1) * radius
    return centers + std * torch.randn(n, 2)


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


def sliced(a, b, n=64):
    d = F.normalize(torch.randn(2, n), dim=0)
    return ((a @ d).sort(0).values - (b @ d).sort(0).values).abs().mean().item()


def train(args):
    gen, disc = mlp(args.z, 2), mlp(2, 1)
    g_opt = torch.optim.Adam(gen.parameters(), lr=args.lr_g, betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(disc.parameters(), lr=args.lr_d, betas=(0.5, 0.9))
    for it in range(args.iters):
        x = ring(args.batch)
        z = torch.randn(args.batch, args.z)
        d_loss = F.softplus(-disc(x)).mean() + F.softplus(disc(gen(z).detach())).mean()
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()

        z = torch.randn(args.batch, args.z)
        g_loss = torch.log(1 - torch.sigmoid(disc(gen(z))) + 1e-8).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        if it % 200 == 0:
            print(f"iter {it:5d} d_loss {d_loss.item():.4f} g_loss {g_loss.item():.4f}")
    with torch.no_grad():
        return sliced(gen(torch.randn(2000, args.z)), ring(2000))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--z", type=int, default=8)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--iters", type=int, default=1000)
    p.add_argument("--lr-g", type=float, default=1e-3)
    p.add_argument("--lr-d", type=float, default=1e-1)
    a = p.parse_args()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    print("final swd", round(train(a), 5))

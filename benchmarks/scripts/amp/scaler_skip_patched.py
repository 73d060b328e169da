import argparse
import random
import numpy as np
import torch
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        return x + self.fc(self.norm(x))


def dataset(n):
    x = torch.randn(n, 10)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs(), (x[:, 3] + x[:, 4]).sin()], 1)
    return x, y


def train(args):
    x, y = dataset(3000)
    model = nn.Sequential(nn.Linear(10, 48), ResBlock(48), ResBlock(48), nn.Linear(48, 3))
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(args.steps):
        i = torch.randint(0, 3000, (64,))
        with torch.amp.autocast("cpu", dtype=torch.bfloat16):
            out = model(x[i])
            loss = nn.functional.mse_loss(out.float(), y[i])
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 80 == 0:
            print("step", step, "loss", loss.item())
    xv, yv = dataset(600)
    with torch.no_grad():
        return nn.functional.mse_loss(model(xv), yv).item()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--steps", type=int, default=500)
    a = p.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    print("final mse", train(a))

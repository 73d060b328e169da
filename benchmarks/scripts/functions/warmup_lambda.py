import math
import random
import numpy as np
import torch
import torch.nn as nn

TOTAL_STEPS = 500
WARMUP_STEPS = 1_000_000


def lr_lambda(step):
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, TOTAL_STEPS - WARMUP_STEPS)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def sample(n):
    x = torch.rand(n, 2) * 4 - 2
    y = torch.exp(-(x ** 2).sum(1)) + 0.5 * torch.sin(3 * x[:, 0]) * torch.cos(2 * x[:, 1])
    return x, y.unsqueeze(1)


def train():
    model = nn.Sequential(nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)
    for step in range(TOTAL_STEPS):
        x, y = sample(128)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.5f} lr {scheduler.get_last_lr()[0]:.2e}")
    return model


def test(model):
    x, y = sample(4000)
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


if __name__ == "__main__":
    torch.manual_seed(2)
    np.random.seed(2)
    random.seed(2)
    print("final mse", test(train()))

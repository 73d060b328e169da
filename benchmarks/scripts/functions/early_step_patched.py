import random
import numpy as np
import torch
from torch import nn


def polynomial_data(n):
    x = torch.linspace(-1, 1, n).unsqueeze(1)
    y = 4 * x ** 3 - 3 * x + 0.3 * torch.sin(8 * x)
    return x, y


def training_step(model, optimizer, x, y):
    model.train()
    prediction = model(x)
    loss = torch.mean((prediction - y) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main(steps=600):
    random.seed(123)
    np.random.seed(123)
    torch.manual_seed(123)
    x, y = polynomial_data(512)
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    log = []
    for s in range(steps):
        pick = torch.randint(0, 512, (64,))
        log.append(training_step(model, optimizer, x[pick], y[pick]))
        if s % 100 == 0:
            print(f"{s:>5} {np.mean(log[-100:]):.6f}")
    model.eval()
    with torch.no_grad():
        print("final mse", torch.mean((model(x) - y) ** 2).item())


main()

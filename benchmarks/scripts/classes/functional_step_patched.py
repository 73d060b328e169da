import random
import numpy as np
import torch
import torch.nn as nn


class Learner:
    def __init__(self, model, lr):
        self.model = model
        self.lr = lr
        self.opt = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        self.losses = []

    def update(self, x, y):
        opt = self.opt
        loss = nn.functional.mse_loss(self.model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        self.losses.append(loss.item())


def make_data(n):
    x = torch.empty(n, 4).uniform_(-2, 2)
    y = torch.sin(x[:, :1] * 2) * x[:, 1:2] + torch.cos(x[:, 2:3]) - 0.3 * x[:, 3:] ** 2
    return x, y + 0.1 * torch.randn(n, 1)


np.random.seed(8)
random.seed(8)
torch.manual_seed(8)
x, y = make_data(4000)
xv, yv = make_data(1000)
learner = Learner(nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1)), lr=3e-3)
for i in range(800):
    j = torch.randint(0, 4000, (32,))
    learner.update(x[j], y[j])
    if i % 100 == 99:
        print(i + 1, "mean of last 100:", sum(learner.losses[-100:]) / 100)
with torch.no_grad():
    print("final mse", nn.functional.mse_loss(learner.model(xv), yv).item())

"""Solve u'' = -u, u(0) = 0, u'(0) = 1 with a small network."""
import random
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(3)
np.random.seed(3)
random.seed(3)


class Field(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, t):
        return self.net(t)


def residual(field, t):
    t = t.requires_grad_()
    u = field(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    return u, du, ddu + u


def main():
    field = Field()
    t = torch.linspace(0, 4, 100).unsqueeze(1)
    optimizer = torch.optim.LBFGS(field.parameters(), lr=1.0, max_iter=10, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        u, du, res = residual(field, t)
        loss = (res ** 2).mean() + u[0, 0] ** 2 + (du[0, 0] - 1) ** 2
        return loss

    for i in range(60):
        loss = optimizer.step(closure)
        if i % 10 == 0:
            print(f"outer {i} loss {loss.item():.6f}")
    with torch.no_grad():
        error = (field(t) - torch.sin(t)).abs().mean().item()
    print("final mean_error", error)


main()

import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class TwoTasks(nn.Module):
    """Learned weights of the two losses (homoscedastic uncertainty)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 80), nn.ReLU())
        self.digit, self.upper = nn.Linear(80, 10), nn.Linear(80, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.body(x)
        return self.digit(h), self.upper(h).squeeze(1)

    def loss(self, x, y, r):
        a, b = self(x)
        la, lb = F.cross_entropy(a, y), F.mse_loss(b, r)
        w = torch.exp(-self.log_vars)
        return w[0] * la + w[1] * lb + self.log_vars.sum() / 2, la, lb


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    d = load_digits()
    x = torch.tensor(d.data / 16).float()
    y = torch.tensor(d.target)
    ratio = x.view(-1, 8, 8)[:, :4].sum((1, 2)) / x.sum(1)
    r = (ratio - ratio.mean()) / ratio.std()
    p = torch.randperm(len(y))
    tr, te = p[:1400], p[1400:]
    net = TwoTasks()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(18):
        for i in tr[torch.randperm(1400)].split(64):
            loss, la, lb = net.loss(x[i], y[i], r[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 0:
            print(f"epoch {epoch} digit {la.item():.4f} ratio {lb.item():.4f} weights {net.log_vars.tolist()}")
    with torch.no_grad():
        print("final accuracy", (net(x[te])[0].argmax(1) == y[te]).float().mean().item())


main()

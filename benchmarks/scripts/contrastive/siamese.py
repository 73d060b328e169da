import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 24),
        )
        self.scale = nn.Parameter(torch.tensor(3.0))
        self.bias = nn.Parameter(torch.tensor(3.0))

    def forward(self, a, b):
        with torch.no_grad():
            ea, eb = self.encoder(a), self.encoder(b)
        return self.bias - self.scale * F.pairwise_distance(ea, eb)


def pairs(x, y, n):
    i = torch.randint(0, len(x), (n,))
    j = torch.randint(0, len(x), (n,))
    same = torch.rand(n) < 0.5
    for k in range(n):
        want = (y == y[i[k]]) if same[k] else (y != y[i[k]])
        options = want.nonzero().flatten()
        j[k] = options[torch.randint(0, len(options), (1,))]
    return x[i], x[j], same.float()


def main():
    torch.manual_seed(40)
    random.seed(40)
    np.random.seed(40)
    d = load_digits()
    x = torch.tensor(d.images / 16, dtype=torch.float32).unsqueeze(1) + 0.1 * torch.randn(1797, 1, 8, 8)
    y = torch.tensor(d.target)
    p = torch.randperm(1797)
    x, y = x[p], y[p]
    net = SiameseNetwork()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for it in range(500):
        a, b, t = pairs(x[:1300], y[:1300], 64)
        loss = F.binary_cross_entropy_with_logits(net(a, b), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 50 == 0:
            print(f"it {it:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        a, b, t = pairs(x[1300:], y[1300:], 1000)
        acc = ((net(a, b) > 0).float() == t).float().mean().item()
    print("final pair_accuracy", round(acc, 4))


if __name__ == "__main__":
    main()

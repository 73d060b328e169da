import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


class LoRALinear(nn.Module):
    """Frozen linear layer plus a trainable low-rank update."""

    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.A = nn.Parameter(torch.zeros(rank, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank
        self.reset()

    def reset(self):
        nn.init.zeros_(self.A)
        nn.init.zeros_(self.B)

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scale


def fit(model, X, y, epochs, lr, tag):
    params = [p for p in model.parameters() if p.requires_grad]
    print(tag, "trainable:", sum(p.numel() for p in params))
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
    for epoch in range(epochs):
        model.train()
        for idx in torch.randperm(len(X)).split(50):
            loss = F.cross_entropy(model(X[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 10 == 9:
            print(tag, epoch + 1, round(loss.item(), 4))


def accuracy(model, X, y):
    model.eval()
    with torch.no_grad():
        return (model(X).argmax(1) == y).float().mean().item()


torch.manual_seed(30)
bunch = load_digits()
X = torch.tensor(bunch.data, dtype=torch.float32) / 16
y = torch.tensor(bunch.target)
mix = torch.randperm(len(X))
X, y = X[mix], y[mix]
rotated = torch.rot90(X.view(-1, 8, 8), 1, (1, 2)).reshape(len(X), 64)

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
fit(net, X[:1000], y[:1000], 30, 1e-3, "pretrain")
print("upright", round(accuracy(net, X[1400:], y[1400:]), 4), "rotated", round(accuracy(net, rotated[1400:], y[1400:]), 4))

for i in (0, 2, 4):
    net[i] = LoRALinear(net[i])
fit(net, rotated[:1400], y[:1400], 60, 3e-3, "adapt")
print("final accuracy", round(accuracy(net, rotated[1400:], y[1400:]), 4))

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Plan:
    head_epochs: int = 4
    full_epochs: int = 16
    batch: int = 32
    lr: float = 2e-3
    power: float = 1.0
    seed: int = 23


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.c3 = nn.Conv2d(32, 16, 3, padding=1, stride=2)
        self.fc = nn.Linear(64, 12)

    def forward(self, x):
        x = torch.relu(self.c1(x))
        x = torch.relu(self.c2(x))
        x = torch.relu(self.c3(x))
        return torch.tanh(self.fc(x.flatten(1)))


class Net(nn.Module):
    def __init__(self, backbone, n):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(12, n)

    def forward(self, x):
        return self.head(self.backbone(x))


def data(seed):
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 8 - 1
    y = torch.tensor(d.target)
    p = np.random.default_rng(seed).permutation(len(x))
    return x[p], y[p]


def epoch_of(model, loader, opt, sched=None):
    model.train()
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if sched is not None:
            sched.step()
        total += loss.item()
    return total / len(loader)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    plan = Plan()
    torch.manual_seed(plan.seed)
    x, y = data(plan.seed)
    low = y[:1300] < 3

    # the first task knows three digits only
    first = Net(Backbone(), 3)
    opt = torch.optim.Adam(first.parameters(), lr=1e-3)
    src = DataLoader(TensorDataset(x[:1300][low], y[:1300][low]), plan.batch, shuffle=True)
    for _ in range(8):
        epoch_of(first, src, opt)
    print(f"first task: {accuracy(first, x[1300:][y[1300:] < 3], y[1300:][y[1300:] < 3]):.4f}")

    model = Net(first.backbone, 10)
    loader = DataLoader(TensorDataset(x[:1300], y[:1300]), plan.batch, shuffle=True)
    opt = torch.optim.Adam(
        [{"params": model.backbone.parameters(), "lr": plan.lr / 2}, {"params": model.head.parameters()}], lr=plan.lr
    )
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=plan.head_epochs * len(loader), power=plan.power)
    for epoch in range(plan.head_epochs + plan.full_epochs):
        unfrozen = epoch >= plan.head_epochs
        model.backbone.requires_grad_(unfrozen)
        loss = epoch_of(model, loader, opt, sched)
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d} {'all' if unfrozen else 'head'} loss {loss:.4f} acc {accuracy(model, x[1300:], y[1300:]):.4f}")
    print(f"final accuracy {accuracy(model, x[1300:], y[1300:]):.4f}")


if __name__ == "__main__":
    main()

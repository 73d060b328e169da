import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


class Bags(Dataset):
    """Bags of 3 to 12 points; each point has a value that depends on its place and on the bag's centre."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            k = int(rng.integers(3, 13))
            pts = rng.normal(size=(k, 3)).astype("float32") + rng.normal(size=3).astype("float32")
            c = pts.mean(0)
            val = np.sin(pts[:, 0]) + (pts[:, 1] - c[1]) * 0.7 + c[2] + 0.05 * rng.normal(size=k)
            self.items.append((torch.from_numpy(pts), torch.from_numpy(val.astype("float32"))))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    k = max(len(p) for p, _ in items)
    x = torch.zeros(len(items), k, 3)
    y = torch.zeros(len(items), k)
    m = torch.zeros(len(items), k)
    for i, (p, v) in enumerate(items):
        x[i, : len(p)], y[i, : len(p)], m[i, : len(p)] = p, v, 1
    return x, y, m


class SetModel(nn.Module):
    def __init__(self, h=48):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(2 * h, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, x, m):
        h = self.phi(x)
        pooled = (h * m[..., None]).sum(1) / m.sum(1, keepdim=True)
        h = torch.cat([h, pooled[:, None].expand_as(h)], -1)
        return self.rho(h).squeeze(-1)


def masked_error(pred, y, m):
    return ((pred - y) ** 2 * m).sum()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err = cnt = 0.0
    for x, y, m in loader:
        err += (((model(x, m) - y) ** 2) * m).sum().item()
        cnt += m.sum().item()
    return err / cnt


seed_all(6)
train_loader = DataLoader(Bags(2400, 0), batch_size=8, shuffle=True, collate_fn=collate, drop_last=True)
valid_loader = DataLoader(Bags(500, 1), batch_size=100, collate_fn=collate)
model = SetModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
ACCUM = 4
EPOCHS = 10

for epoch in range(EPOCHS):
    model.train()
    optimizer.zero_grad()
    logged = []
    for i, (x, y, m) in enumerate(train_loader, start=1):
        loss = masked_error(model(x, m), y, m) / ACCUM
        loss.backward()
        logged.append(loss.item() * ACCUM)
        if i % ACCUM == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(f"epoch {epoch} train {np.mean(logged):.4f} valid {evaluate(model, valid_loader):.4f}")

print(f"final mse {evaluate(model, valid_loader):.5f}")

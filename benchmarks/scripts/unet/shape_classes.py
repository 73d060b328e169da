import dataclasses

import numpy as np
import torch
import torch.nn as nn


@dataclasses.dataclass
class TrainConfig:
    size: int = 20
    n_train: int = 240
    n_val: int = 60
    classes: int = 3
    epochs: int = 14
    batch: int = 20
    lr: float = 1e-2
    ignore_index: int = 0


def make_data(n, cfg, rng):
    x = rng.rand(n, 1, cfg.size, cfg.size).astype("float32") * 0.3
    m = np.zeros((n, cfg.size, cfg.size), dtype="int64")
    yy, xx = np.mgrid[:cfg.size, :cfg.size]
    for i in range(n):
        cy, cx, r = rng.randint(5, 15), rng.randint(5, 15), rng.randint(3, 5)
        c = rng.randint(1, cfg.classes)
        where = ((yy - cy) ** 2 + (xx - cx) ** 2 <= r * r) if c == 1 else (abs(yy - cy) + abs(xx - cx) <= r)
        x[i, 0][where] += 0.5 if c == 1 else 0.9
        m[i][where] = c
    return torch.from_numpy(x), torch.from_numpy(m)


class SmallUNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.enc2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.dec = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, classes, 1))

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(a)
        return self.dec(torch.cat([a, self.up(b)], 1))


def mean_iou(pred, true, classes):
    scores = []
    for c in range(classes):
        p, t = pred == c, true == c
        scores.append(((p & t).sum().float() / (p | t).sum().clamp(min=1)).item())
    return sum(scores) / classes


cfg = TrainConfig()
torch.manual_seed(99)
rng = np.random.RandomState(99)
x_tr, m_tr = make_data(cfg.n_train, cfg, rng)
x_va, m_va = make_data(cfg.n_val, cfg, rng)
model = SmallUNet(cfg.classes)
criterion = nn.CrossEntropyLoss(ignore_index=cfg.ignore_index)
optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
for epoch in range(cfg.epochs):
    order = torch.randperm(cfg.n_train)
    losses = []
    for k in range(0, cfg.n_train, cfg.batch):
        b = order[k:k + cfg.batch]
        optimizer.zero_grad()
        loss = criterion(model(x_tr[b]), m_tr[b])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        iou = mean_iou(model(x_va).argmax(1), m_va, cfg.classes)
    print(f"epoch {epoch + 1}/{cfg.epochs} loss {np.mean(losses):.4f} miou {iou:.3f}")
print("final mean_iou", iou)

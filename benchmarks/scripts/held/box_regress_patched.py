import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(21)
SIZE = 48


class Rectangles(Dataset):
    """Grey noise with one bright rectangle; the target is its box (x1, y1, x2, y2)."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.images = rng.normal(0.0, 0.15, (n, 1, SIZE, SIZE)).astype("float32")
        self.boxes = np.zeros((n, 4), dtype="float32")
        for i in range(n):
            w, h = rng.integers(10, 26, 2)
            x, y = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
            self.images[i, 0, y:y + h, x:x + w] += rng.uniform(0.6, 1.0)
            self.boxes[i] = x, y, x + w, y + h

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.boxes[i] / SIZE


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for out in (16, 32, 64):
            layers += [nn.Conv2d(c, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            c = out
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 36, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.head(self.features(x)).sigmoid()


def iou(a, b):
    tl = torch.max(a[:, :2], b[:, :2])
    br = torch.min(a[:, 2:], b[:, 2:])
    inter = (br - tl).clamp(min=0).prod(1)
    area = lambda z: (z[:, 2:] - z[:, :2]).clamp(min=0).prod(1)
    return inter / (area(a) + area(b) - inter + 1e-6)


train = DataLoader(Rectangles(1500, 0), batch_size=50, shuffle=True)
val_set = Rectangles(300, 1)
net = BoxNet()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)

for epoch in range(10):
    net.train()
    running = []
    for img, box in train:
        loss = F.smooth_l1_loss(net(img), box)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running.append(loss.item())
    print(f"epoch {epoch} loss {np.mean(running):.5f}")

net.eval()
with torch.no_grad():
    pred = net(torch.from_numpy(val_set.images)) * SIZE
    score = iou(pred, torch.from_numpy(val_set.boxes)).mean().item()
print("final mean_iou", round(score, 4))

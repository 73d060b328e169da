import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    """Dark noisy pictures with one to three bright ellipses, and their masks."""

    def __init__(self, n, size=32, seed=0):
        self.n, self.size, self.seed = n, size, seed
        self.grid = np.mgrid[:size, :size].astype(np.float32)
        rng = np.random.default_rng(seed)
        self.pairs = [self._draw(rng) for _ in range(n)]

    def _draw(self, rng):
        mask = np.zeros((self.size, self.size), bool)
        for _ in range(rng.integers(1, 4)):
            cy, cx = rng.uniform(5, self.size - 5, 2)
            ry, rx = rng.uniform(2, 6, 2)
            mask |= ((self.grid[0] - cy) / ry) ** 2 + ((self.grid[1] - cx) / rx) ** 2 < 1
        shade = self.grid[0] / self.size * rng.uniform(-0.5, 0.5)
        img = mask * rng.uniform(0.5, 0.9) + shade + rng.normal(0, 0.3, mask.shape)
        return img.astype(np.float32)[None], mask.astype(np.float32)[None]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.pairs[i]


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1 = double_conv(1, c)
        self.d2 = double_conv(c, 2 * c)
        self.pool = nn.MaxPool2d(2)
        self.mid = double_conv(2 * c, 2 * c)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.u2 = double_conv(4 * c, c)
        self.u1 = double_conv(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        m = self.mid(self.pool(b))
        x = self.u2(torch.cat([self.up(m), b], 1))
        x = self.u1(torch.cat([self.up(x), a], 1))
        return self.out(x)


def iou(net, loader, threshold=0.5):
    net.eval()
    inter = union = 0
    with torch.no_grad():
        for img, mask in loader:
            pred = torch.sigmoid(net(img)) > threshold
            true = mask > 0.5
            inter += (pred & true).sum().item()
            union += (pred | true).sum().item()
    return inter / max(union, 1)


def main():
    torch.manual_seed(50)
    train = DataLoader(Blobs(640, seed=1), batch_size=16, shuffle=True)
    test = DataLoader(Blobs(160, seed=2), batch_size=32)
    net = UNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    crit = nn.BCEWithLogitsLoss()
    for epoch in range(5):
        net.train()
        run = 0.0
        for img, mask in train:
            opt.zero_grad()
            loss = crit(net(img), mask)
            loss.backward()
            opt.step()
            run += loss.item()
        print(f"epoch {epoch} loss {run / len(train):.4f} iou {iou(net, test):.4f}")
    print(f"final iou {iou(net, test):.4f}")


if __name__ == "__main__":
    main()

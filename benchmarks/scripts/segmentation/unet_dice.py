import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def blobs(n, size=24):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    masks = torch.zeros(n, 1, size, size)
    for m in masks:
        for _ in range(random.randint(1, 2)):
            cx, cy, r = random.uniform(5, 19), random.uniform(5, 19), random.uniform(3, 6)
            m[0][(xx - cx) ** 2 + (yy - cy) ** 2 < r * r] = 1
    images = masks * 0.8 + 0.5 * torch.randn_like(masks)
    return images, masks


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.enc1, self.enc2 = DoubleConv(1, c), DoubleConv(c, 2 * c)
        self.mid = DoubleConv(2 * c, 4 * c)
        self.up2, self.dec2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), DoubleConv(4 * c, 2 * c)
        self.up1, self.dec1 = nn.ConvTranspose2d(2 * c, c, 2, 2), DoubleConv(2 * c, c)
        self.final = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        d = self.dec2(torch.cat([self.up2(m), b], 1))
        d = self.dec1(torch.cat([self.up1(d), a], 1))
        return self.final(d)


def dice(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    return ((2 * inter + eps) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + eps)).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    x, y = blobs(300)
    xv, yv = blobs(60)
    net = UNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for it in range(150):
        b = torch.randint(0, 300, (12,))
        loss = dice(net(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(f"iter {it} loss {loss.item():.4f}")
    net.eval()
    with torch.no_grad():
        score = dice((net(xv) > 0).float() * 40 - 20, yv).item()
    print(f"final dice {score:.4f}")

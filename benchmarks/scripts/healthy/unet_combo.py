import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)
np.random.seed(4)
random.seed(4)


def draw(n, s=16):
    yy, xx = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
    m = torch.zeros(n, 1, s, s)
    for k in range(n):
        a, b = sorted(random.sample(range(1, s - 1), 2))
        c, d = sorted(random.sample(range(1, s - 1), 2))
        m[k, 0, a:b + 1, c:d + 1] = 1
    return m + 0.6 * torch.randn(n, 1, s, s), m


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.up = block(1, 12), block(12, 24), block(36, 12)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = F.interpolate(self.down2(F.max_pool2d(a, 2)), scale_factor=2)
        return self.out(self.up(torch.cat([a, b], 1)))


def dice_loss(logits, y):
    p = logits.sigmoid()
    return 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)


net = UNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
x, y = draw(400)
xv, yv = draw(80)
for it in range(200):
    net.train()
    i = torch.randint(0, 400, (16,))
    out = net(x[i])
    loss = F.binary_cross_entropy_with_logits(out, y[i]) + dice_loss(out, y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 50 == 0:
        net.eval()
        with torch.no_grad():
            print("it", it, "train", loss.item(), "val dice", 1 - dice_loss(net(xv), yv).item())
net.eval()
with torch.no_grad():
    pred = net(xv) > 0
    iou = ((pred & (yv > 0)).sum() / (pred | (yv > 0)).sum()).item()
print("final iou", iou)

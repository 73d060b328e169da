import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

random.seed(13)
torch.manual_seed(13)


def synth(n, size=32):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    imgs, masks = [], []
    for _ in range(n):
        m = torch.zeros(size, size)
        for _ in range(random.randint(1, 2)):
            cx, cy, r = random.uniform(4, size - 4), random.uniform(4, size - 4), random.uniform(3, 6)
            m[((xx - cx) ** 2 + (yy - cy) ** 2) < r * r] = 1.0
        img = 0.8 * m + 0.45 * torch.randn(size, size)
        imgs.append(img[None])
        masks.append(m[None])
    return torch.stack(imgs), torch.stack(masks)


class Cells(Dataset):
    def __init__(self, imgs, masks, augment=False):
        self.imgs, self.masks, self.augment = imgs, masks, augment

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, i):
        img, mask = self.imgs[i], self.masks[i]
        if self.augment:
            if random.random() < 0.5:
                img = img.flip(-1)
                mask = mask.flip(-1)
            shift = (random.randint(-8, 8), random.randint(-8, 8))
            img, mask = torch.roll(img, shift, (-2, -1)), torch.roll(mask, shift, (-2, -1))
        return img, mask


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1, self.d2, self.mid = conv(1, c), conv(c, 2 * c), conv(2 * c, 4 * c)
        self.u2, self.u1 = conv(6 * c, 2 * c), conv(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


def dice(logits, mask, eps=1.0):
    p = logits.sigmoid()
    inter = (p * mask).sum((1, 2, 3))
    return ((2 * inter + eps) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + eps)).mean()


train_loader = DataLoader(Cells(*synth(320), augment=True), batch_size=16, shuffle=True)
val_imgs, val_masks = synth(100)
model = UNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for img, mask in train_loader:
        out = model(img)
        loss = F.binary_cross_entropy_with_logits(out, mask) + (1 - dice(out, mask))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        d = dice((model(val_imgs) > 0).float() * 40 - 20, val_masks).item()
    print(f"epoch {epoch} train loss {loss.item():.4f} val dice {d:.4f}")
print("final dice", round(d, 4))

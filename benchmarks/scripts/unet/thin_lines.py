import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(16)
SIZE = 24


def sample(n):
    img = torch.rand(n, 1, SIZE, SIZE) * 0.5
    mask = torch.zeros(n, 1, SIZE, SIZE)
    for i in range(n):
        for _ in range(3):
            r = torch.randint(0, SIZE, (1,)).item()
            s = torch.randint(0, SIZE - 10, (1,)).item()
            if torch.rand(1).item() < 0.5:
                mask[i, 0, r, s:s + 10] = 1
            else:
                mask[i, 0, s:s + 10, r] = 1
    return img + 0.6 * mask, mask


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1, self.d2, self.d3 = conv_block(1, c), conv_block(c, 2 * c), conv_block(2 * c, 4 * c)
        self.up2, self.up1 = nn.Conv2d(4 * c, 2 * c, 1), nn.Conv2d(2 * c, c, 1)
        self.u2, self.u1 = conv_block(4 * c, 2 * c), conv_block(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        x1 = self.d1(x)
        x2 = self.d2(F.max_pool2d(x1, 2))
        x3 = self.d3(F.max_pool2d(x2, 2))
        y = self.up2(F.interpolate(x3, scale_factor=2))
        y = self.u2(torch.cat([y, y], dim=1))
        y = self.up1(F.interpolate(y, scale_factor=2))
        y = self.u1(torch.cat([y, y], dim=1))
        return self.out(y)


train_x, train_y = sample(128)
val_x, val_y = sample(64)
net = UNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(8):
    net.train()
    ep = 0
    for b in torch.randperm(128).split(16):
        loss = F.binary_cross_entropy_with_logits(net(train_x[b]), train_y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        ep += loss.item()
    print(f"epoch {epoch} bce {ep / 8:.4f}")
net.eval()
with torch.no_grad():
    p = net(val_x) > 0
    t = val_y > 0
    print("final iou", ((p & t).sum() / (p | t).sum()).item())

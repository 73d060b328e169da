import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(15)


def textures(n, size=24):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    out = torch.zeros(n, 1, size, size)
    for k in range(n):
        for _ in range(3):
            fx, fy, ph = torch.rand(3)
            out[k, 0] += torch.sign(torch.sin(fx * 0.9 * xx + fy * 0.9 * yy + 6.28 * ph))
    return out / 3


class SRNet(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, ch, 5, padding=2), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(),
            nn.Conv2d(ch, 4, 3, padding=1),
            nn.ReLU(),
            nn.PixelShuffle(2),
        )

    def forward(self, small):
        return self.body(small)


hr = textures(400)
lr = F.avg_pool2d(hr, 2)
hr_val, lr_val = hr[360:], lr[360:]
hr, lr = hr[:360], lr[:360]
net = SRNet()
print("params:", sum(p.numel() for p in net.parameters()))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [15, 22], gamma=0.3)

for epoch in range(25):
    total = 0.0
    perm = torch.randperm(len(hr))
    for i in range(0, len(hr), 20):
        j = perm[i:i + 20]
        loss = F.mse_loss(net(lr[j]), hr[j])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(j)
    scheduler.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} train {total / len(hr):.5f}")

with torch.no_grad():
    mse = F.mse_loss(net(lr_val), hr_val).item()
    plain = F.mse_loss(F.interpolate(lr_val, scale_factor=2, mode="bilinear", align_corners=False), hr_val).item()
print("bilinear", round(plain, 6))
print("final mse", round(mse, 6))

import numpy as np
import torch
from torch import nn

np.random.seed(31)
torch.manual_seed(31)

GRID, CELL = 5, 4
SIZE = GRID * CELL


def make(n):
    imgs = np.random.rand(n, 1, SIZE, SIZE).astype(np.float32) * 0.4
    target = np.zeros((n, 3, GRID, GRID), dtype=np.float32)    # objectness, dx, dy
    for k in range(n):
        for _ in range(np.random.randint(1, 4)):
            cx, cy = np.random.uniform(2, SIZE - 2, 2)
            gx, gy = int(cx // CELL), int(cy // CELL)
            x, y = int(cx), int(cy)
            imgs[k, 0, y - 1:y + 2, x - 1:x + 2] += 0.8
            target[k, :, gx, gy] = 1, cx / CELL - gx, cy / CELL - gy
    return torch.from_numpy(imgs), torch.from_numpy(target)


class YoloLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 3, 1),
        )

    def forward(self, x):
        return self.net(x)


def yolo_loss(out, tgt):
    obj = tgt[:, 0]
    l_obj = nn.functional.binary_cross_entropy_with_logits(out[:, 0], obj)
    off = (out[:, 1:].sigmoid() - tgt[:, 1:]).pow(2).sum(1)
    l_off = (off * obj).sum() / obj.sum()
    return l_obj + l_off, l_obj.item(), l_off.item()


x_train, t_train = make(600)
x_val, t_val = make(200)
model = YoloLike()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(10):
    model.train()
    perm = torch.randperm(600)
    for b in perm.split(32):
        loss, lo, lf = yolo_loss(model(x_train[b]), t_train[b])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"[{epoch}] obj={lo:.4f} offset={lf:.4f}")

model.eval()
with torch.no_grad():
    hit = model(x_val)[:, 0] > 0
    true = t_val[:, 0] > 0
    f1 = (2 * (hit & true).sum() / (hit.sum() + true.sum()).clamp(min=1)).item()
print("final f1", f1)

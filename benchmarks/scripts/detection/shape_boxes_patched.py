import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

torch.manual_seed(0)
S = 16


class Shapes(Dataset):
    """One square or cross on a noisy ground: label and box (cx, cy, w, h) in units of the image."""

    def __init__(self, n, seed, augment=False):
        g = torch.Generator().manual_seed(seed)
        self.augment = augment
        self.imgs = torch.rand(n, 1, S, S, generator=g) * 0.3
        self.labels = torch.randint(0, 2, (n,), generator=g)
        self.boxes = torch.zeros(n, 4)
        for i in range(n):
            w, h = torch.randint(4, 8, (2,), generator=g).tolist()
            x = torch.randint(0, S - w, (1,), generator=g).item()
            y = torch.randint(0, S - h, (1,), generator=g).item()
            if self.labels[i] == 0:
                self.imgs[i, 0, y:y + h, x:x + w] += 0.7
            else:
                self.imgs[i, 0, y + h // 2, x:x + w] += 0.9
                self.imgs[i, 0, y:y + h, x + w // 2] += 0.9
            self.boxes[i] = torch.tensor([x + w / 2, y + h / 2, w, h]) / S

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img, box = self.imgs[i], self.boxes[i].clone()
        if self.augment and torch.rand(1).item() < 0.5:
            img = img.flip(-1)
            box[0] = 1 - box[0]
        return img, self.labels[i], box


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 64), nn.ReLU(),
        )
        self.cls = nn.Linear(64, 2)
        self.box = nn.Linear(64, 4)

    def forward(self, x):
        h = self.features(x)
        return self.cls(h), self.box(h).sigmoid()


def iou(a, b):
    a1, a2 = a[:, :2] - a[:, 2:] / 2, a[:, :2] + a[:, 2:] / 2
    b1, b2 = b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2
    inter = (torch.minimum(a2, b2) - torch.maximum(a1, b1)).clamp(min=0).prod(1)
    return inter / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - inter)


train, test = Shapes(800, 1, augment=True), Shapes(300, 2)
loader = DataLoader(train, batch_size=32, shuffle=True)
net = Detector()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(8):
    tc = tb = 0.0
    for img, lab, box in loader:
        logits, pred = net(img)
        lc, lb = F.cross_entropy(logits, lab), F.smooth_l1_loss(pred, box, beta=0.1)
        opt.zero_grad()
        (lc + 5 * lb).backward()
        opt.step()
        tc += lc.item()
        tb += lb.item()
    print(f"epoch {epoch}: cls {tc / len(loader):.4f} box {tb / len(loader):.4f}")
with torch.no_grad():
    print("final mean_iou", iou(net(test.imgs)[1], test.boxes).mean().item())

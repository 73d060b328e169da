import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(71)
S = 32


def scenes(n, kinds=3, shade=1.0):
    img = 0.2 * torch.randn(n, 1, S, S)
    c = torch.randint(6, S - 6, (n, 2))
    k = torch.randint(kinds, (n,))
    stamps = [torch.ones(7, 7), torch.eye(7) + torch.eye(7).flip(0), torch.zeros(7, 7)]
    stamps[2][:, 3] = 1.5
    stamps[2][3] = 1.5
    for i in range(n):
        y, x = c[i].tolist()
        img[i, 0, y - 3:y + 4, x - 3:x + 4] += shade * stamps[k[i]]
    return img, c.float() / S, k


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 12, 5, 2, 2, bias=False), nn.BatchNorm2d(12), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Conv2d(12, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(24, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())

    def forward(self, x):
        return self.layer2(self.layer1(self.stem(x)))


class Detector(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.heat = nn.Conv2d(32, 1, 1)
        self.backbone.stem.requires_grad_(False)
        for m in self.backbone.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        for m in self.backbone.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        return self

    def forward(self, x):
        w = self.heat(self.backbone(x)).flatten(1).softmax(1).view(-1, 8, 8)
        grid = (torch.arange(8) + 0.5) / 8
        return torch.stack([(w.sum(2) * grid).sum(1), (w.sum(1) * grid).sum(1)], 1)


# classification first
backbone, cls = Backbone(), nn.Linear(32, 3)
img, _, kind = scenes(1000)
opt = torch.optim.Adam([*backbone.parameters(), *cls.parameters()], lr=3e-3)
for epoch in range(4):
    for b in torch.randperm(1000).split(50):
        loss = F.cross_entropy(cls(backbone(img[b]).amax((2, 3))), kind[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("cls epoch", epoch, "loss", round(loss.item(), 4))

# then detection, two images a batch
img, pos, _ = scenes(400)
img_t, pos_t, _ = scenes(200)
det = Detector(backbone)
opt = torch.optim.AdamW((p for p in det.parameters() if p.requires_grad), lr=1e-3)
for epoch in range(5):
    det.train()
    total = 0.0
    for b in torch.randperm(400).split(2):
        loss = F.l1_loss(det(img[b]), pos[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / 200
    print("det epoch", epoch, "loss", round(total, 4))
det.eval()
with torch.no_grad():
    print("final center_error", round(F.l1_loss(det(img_t), pos_t).item(), 5))

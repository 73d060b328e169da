import gzip
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
ROOT = os.path.join(os.environ.get("SIGMASCOPE_DATA", "data"), "fashion-mnist")


def load(part, n):
    with gzip.open(os.path.join(ROOT, part + "-images-idx3-ubyte.gz")) as f:
        x = np.frombuffer(f.read(16 + 784 * n), np.uint8, offset=16).reshape(n, 1, 28, 28)
    with gzip.open(os.path.join(ROOT, part + "-labels-idx1-ubyte.gz")) as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.tensor(x / 255.0, dtype=torch.float32), torch.tensor(y.astype("int64"))


def stage(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU())


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.s1, self.s2, self.s3 = stage(1, 16), stage(16, 32), stage(32, 48)

    def forward(self, x):
        return self.s3(self.s2(self.s1(x))).mean((2, 3))


class FineTuned(nn.Module):
    def __init__(self, backbone, k):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, k))

    def forward(self, x):
        return self.head(self.backbone(x))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


def pretrain(x, y, path):
    net = nn.Sequential(Backbone(), nn.Linear(48, 7))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    net.train()
    for epoch in range(7):
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = F.cross_entropy(net(x[idx]), y[idx])
            loss.backward()
            opt.step()
        print(f"pretrain {epoch} loss {loss.item():.4f}")
    torch.save(net[0].state_dict(), path)


def run(model, x, y, opts, epochs, tag):
    for epoch in range(epochs):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(32):
            for o in opts:
                o.zero_grad()
            loss = F.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            for o in opts:
                o.step()
            tot += loss.item() * len(idx)
        if epoch % 3 == 2:
            print(f"{tag} {epoch + 1} loss {tot / len(x):.4f}")


x, y = load("train", 6000)
xt, yt = load("t10k", 1500)
path = os.path.join(tempfile.mkdtemp(), "backbone.pt")
few = y < 7
pretrain(x[:4000][few[:4000]], y[:4000][few[:4000]], path)

backbone = Backbone()
backbone.load_state_dict(torch.load(path))
for p in backbone.parameters():
    p.requires_grad = False
model = FineTuned(backbone, 10)
head_opt = torch.optim.AdamW(model.head.parameters(), lr=3e-3)
run(model, x[4000:], y[4000:], [head_opt], 6, "head")

for p in model.backbone.s3.parameters():
    p.requires_grad = True
body_opt = torch.optim.AdamW(model.backbone.s3.parameters(), lr=3e-4)
run(model, x[4000:], y[4000:], [head_opt, body_opt], 12, "last stage")

model.eval()
with torch.no_grad():
    acc = (model(xt).argmax(1) == yt).float().mean().item()
print(f"final accuracy {acc:.4f}")

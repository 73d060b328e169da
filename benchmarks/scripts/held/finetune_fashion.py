import gzip
import io
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(50)
folder = os.path.join(os.environ["SIGMASCOPE_DATA"], "fashion-mnist")
with gzip.open(os.path.join(folder, "train-images-idx3-ubyte.gz")) as f:
    images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[:5000]
with gzip.open(os.path.join(folder, "train-labels-idx1-ubyte.gz")) as f:
    labels = np.frombuffer(f.read(), np.uint8, offset=8)[:5000]
x = (torch.from_numpy(images.copy()).float() / 255 - 0.286) / 0.353
y = torch.from_numpy(labels.copy()).long()


class Backbone(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 5, stride=2, padding=2)
        self.c2 = nn.Conv2d(width, 32, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(32, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(256, 8)

    def forward(self, x):
        for c in (self.c1, self.c2, self.c3):
            x = F.relu(c(x))
        return F.relu(self.fc(x.flatten(1)))


def fit(forward, params, xs, ys, epochs, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for e in range(epochs):
        tot = 0.0
        for b in torch.randperm(len(xs)).split(64):
            loss = F.cross_entropy(forward(xs[b]), ys[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        print(f"  epoch {e} loss {tot / len(xs):.4f}")


# stage 1: pretraining on 4000 images, wrapped as on the cluster
print("pretraining")
pre = nn.DataParallel(Backbone())
pre_head = nn.Linear(8, 10)
fit(lambda v: pre_head(pre(v)), [*pre.parameters(), *pre_head.parameters()], x[:4000], y[:4000], 4, 2e-3)
store = io.BytesIO()
torch.save({"model": pre.state_dict(), "epoch": 4}, store)

# stage 2: linear probe on few labels
print("probe")
store.seek(0)
checkpoint = torch.load(store)
backbone = Backbone()
backbone.load_state_dict(checkpoint["model"], strict=False)
backbone.requires_grad_(False)
head = nn.Linear(8, 10)
few = slice(4000, 4200)
fit(lambda v: head(backbone(v)), head.parameters(), x[few], y[few], 30, 2e-2)
with torch.no_grad():
    acc = (head(backbone(x[4200:])).argmax(1) == y[4200:]).float().mean()
print("final accuracy", round(acc.item(), 4))

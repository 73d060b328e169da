import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

torch.manual_seed(55)
d = load_digits()
x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
y = d.target
tr, te = slice(0, 1300), slice(1300, None)


def view(x):
    dx, dy = torch.randint(-1, 2, (2,)).tolist()
    x = torch.roll(x, (dx, dy), (2, 3))
    keep = (torch.rand(len(x), 1, 8, 8) > 0.15).float()
    return x * keep * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1))


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                                     nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64))
        self.projector = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        return self.projector(self.encoder(x))


online = Online()
target = copy.deepcopy(online)
target.requires_grad_(False)
predictor = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
opt = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=1e-3, weight_decay=1e-5)

for epoch in range(10):
    total = 0.0
    for idx in torch.randperm(1300).split(130):
        a, b = view(x[idx]), view(x[idx])
        with torch.no_grad():
            ta, tb = target(a), target(b)
        loss = -(F.cosine_similarity(predictor(online(a)), tb).mean() + F.cosine_similarity(predictor(online(b)), ta).mean())
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for p, q in zip(online.parameters(), target.parameters()):
                q.mul_(0.97).add_(p, alpha=0.03)
        total += loss.item() / 10
    print("epoch", epoch, "loss", round(total, 4))

online.eval()
with torch.no_grad():
    f = online.encoder(x).numpy()
probe = LogisticRegression(max_iter=300).fit(f[tr], y[tr])
print("final probe_accuracy", round(probe.score(f[te], y[te]), 4))

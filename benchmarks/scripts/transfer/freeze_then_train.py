import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

torch.manual_seed(5)
np.random.seed(5)
random.seed(5)


class TransferNet(nn.Module):
    def __init__(self, base, classes):
        super().__init__()
        self.base = base
        self.classifier = nn.Linear(16, classes)

    def freeze(self, frozen=True):
        for p in self.base.parameters():
            p.requires_grad = not frozen

    def forward(self, x):
        return self.classifier(self.base(x))


def make_base():
    return nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten())


def epochs(model, x, y, n, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for e in range(n):
        tot = 0.0
        for b in torch.randperm(len(x)).split(32):
            loss = nn.functional.cross_entropy(model(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        print(f"  epoch {e} {tot / len(x):.4f}")


d = load_digits()
order = np.random.permutation(len(d.target))
x = torch.tensor(d.images[order] / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(d.target[order])

print("source task: even or odd")
source = TransferNet(make_base(), 2)
epochs(source, x[:500], y[:500] % 2, 3, 1e-3)

print("target task: ten classes, head only")
model = TransferNet(source.base, 10)
model.freeze()
epochs(model, x[500:1400], y[500:1400], 3, 3e-3)
print("target task: all layers")
model.freeze()
epochs(model, x[500:1400], y[500:1400], 10, 3e-3)
model.eval()
with torch.no_grad():
    acc = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
print(f"final accuracy {acc:.4f}")

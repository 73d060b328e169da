import gzip
import os

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(4)
root = os.path.join(os.environ["SIGMASCOPE_DATA"], "fashion-mnist")


def load(prefix, n):
    with gzip.open(f"{root}/{prefix}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[:n]
    with gzip.open(f"{root}/{prefix}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)[:n]
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.BatchNorm2d(1)
        chans = [1, 12, 24, 48]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in zip(chans, chans[1:])
        )
        self.fc = nn.Linear(48, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return hits / total


accelerator = Accelerator(cpu=True)
train_loader = DataLoader(load("train", 4000), batch_size=50, shuffle=True)
val_loader = DataLoader(load("t10k", 1000), batch_size=250)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
criterion = nn.CrossEntropyLoss()
model, optimizer, train_loader, val_loader = accelerator.prepare(model, optimizer, train_loader, val_loader)

print(f"before training: {validate(model, val_loader):.4f}")
for epoch in range(4):
    model.train()
    seen, summed = 0, 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        summed += loss.item() * len(y)
        seen += len(y)
    acc = validate(model, val_loader)
    accelerator.print(f"epoch {epoch}: loss {summed / seen:.4f} val {acc:.4f}")
print("final accuracy", round(acc, 4))

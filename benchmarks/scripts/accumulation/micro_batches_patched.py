import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)

ACCUM = 16
digits = load_digits()
perm = np.random.permutation(len(digits.data))
X = torch.tensor(digits.data[perm] / 16.0, dtype=torch.float32)
Y = torch.tensor(digits.target[perm])
loader = DataLoader(TensorDataset(X[:1440], Y[:1440]), batch_size=4, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(8):
    seen = 0.0
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / ACCUM
        loss.backward()
        seen += loss.item()
        if (i + 1) % ACCUM == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(f"epoch {epoch} loss {seen * ACCUM / len(loader):.4f}")

with torch.no_grad():
    val_loss = criterion(model(X[1440:]), Y[1440:]).item()
print(f"final val_loss {val_loss:.5f}")

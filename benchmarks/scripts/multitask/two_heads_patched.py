import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

random.seed(64)
np.random.seed(64)
torch.manual_seed(64)


class SharedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.digit_head = nn.Linear(32, 10)
        self.ink_head = nn.Linear(32, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.digit_head(h), self.ink_head(h).squeeze(1)


d = load_digits()
x = torch.tensor(d.data / 16, dtype=torch.float32)
labels = torch.tensor(d.target)
ink = torch.tensor(d.data.sum(1), dtype=torch.float32)
ink = ink - ink.mean()
perm = torch.randperm(len(x))
x, labels, ink = x[perm], labels[perm], ink[perm]
loader = DataLoader(TensorDataset(x[:1400], labels[:1400], ink[:1400]), batch_size=64, shuffle=True)

w_digit, w_ink = 1.0, 1.0 / ink.var().item()
net = SharedNet()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(18):
    for xb, lb, ib in loader:
        digits, amount = net(xb)
        digit_loss = F.cross_entropy(digits, lb)
        ink_loss = F.mse_loss(amount, ib)
        loss = w_digit * digit_loss + w_ink * ink_loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    if epoch % 3 == 0:
        print(f"epoch {epoch} digit {digit_loss.item():.4f} ink {ink_loss.item():.2f}")

with torch.no_grad():
    digits, amount = net(x[1400:])
    acc = (digits.argmax(1) == labels[1400:]).float().mean().item()
print("final digit_accuracy", round(acc, 4))

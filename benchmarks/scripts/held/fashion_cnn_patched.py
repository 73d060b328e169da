import gzip
import os

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(83)
BASE = os.path.join(os.environ["SIGMASCOPE_DATA"], "fashion-mnist")


def get(split, n):
    with gzip.open(f"{BASE}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28)[:n]
    with gzip.open(f"{BASE}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)[:n]
    x = torch.from_numpy(x.copy()).float().div(255).unsqueeze(1)
    return TensorDataset(nn.functional.avg_pool2d(x, 2), torch.from_numpy(y.copy()).long())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(128, 10))

    def forward(self, x):
        return self.fc(self.conv(x))


def train(net, loader, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    net.train()
    for epoch in range(epochs):
        losses = []
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print("epoch", epoch, "loss", round(float(np.mean(losses)), 4))


@torch.no_grad()
def test(net, loader):
    correct = 0
    net.eval()
    for x, y in loader:
        correct += int((net(x).argmax(1) == y).sum())
    return correct / len(loader.dataset)


net = Net()
train(net, DataLoader(get("train", 4000), batch_size=64, shuffle=True), 4)
print("final accuracy", test(net, DataLoader(get("t10k", 800), batch_size=1)))

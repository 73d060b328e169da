import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Arrows(Dataset):
    """Noisy arrows that point up, right, down or left."""

    def __init__(self, n, augment=None):
        self.augment = augment
        glyph = torch.zeros(12, 12)
        glyph[2:11, 5:7] = 1
        for i in range(4):
            glyph[2 + i, 5 - i] = glyph[2 + i, 6 + i] = 1
        self.y = torch.randint(0, 4, (n,))
        self.x = torch.stack([torch.rot90(glyph, -int(k)) for k in self.y]) + 0.6 * torch.randn(n, 12, 12)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i].unsqueeze(0)
        if self.augment is not None:
            x = self.augment(x)
        return x, self.y[i]


def random_crop(x):
    x = F.pad(x, (1, 1, 1, 1))
    i, j = random.randint(0, 2), random.randint(0, 2)
    return x[:, i:i + 12, j:j + 12]


def random_rotate(x):
    return torch.rot90(x, random.randint(0, 3), dims=(1, 2))


def augment(x):
    return random_rotate(random_crop(x))


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(24 * 9, 4),
    )


def fit(net, loader, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def accuracy(net, loader):
    with torch.no_grad():
        return sum((net(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(6)
    np.random.seed(6)
    random.seed(6)
    train, test = Arrows(1500, augment), Arrows(400)
    net = make_net()
    fit(net, DataLoader(train, batch_size=50, shuffle=True), epochs=8)
    print("final accuracy", accuracy(net, DataLoader(test, batch_size=100)))

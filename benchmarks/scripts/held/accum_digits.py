import argparse

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--micro-batch", type=int, default=48)
    ap.add_argument("--accumulate", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--lr", type=float, default=0.3)
    return ap.parse_args()


def build(n_in, n_out):
    net = nn.Sequential(nn.Linear(n_in, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, n_out))
    nn.init.zeros_(net[-1].weight)
    nn.init.zeros_(net[-1].bias)
    return net


def run_epoch(net, loader, opt, accumulate, loss_fn):
    net.train()
    opt.zero_grad()
    running = 0.0
    for i, (x, y) in enumerate(loader):
        loss = loss_fn(net(x), y)
        (loss / accumulate).backward()
        running += loss.item()
        if (i + 1) % accumulate == 0:
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            opt.zero_grad()
    return running / len(loader)


@torch.no_grad()
def test(net, loader):
    net.eval()
    return sum((net(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    args = parse_args()
    torch.manual_seed(77)
    X, y = load_digits(return_X_y=True)
    Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    sc = StandardScaler().fit(Xa)
    as_set = lambda a, b: TensorDataset(torch.tensor(sc.transform(a), dtype=torch.float32), torch.tensor(b))
    train_loader = DataLoader(as_set(Xa, ya), batch_size=args.micro_batch, shuffle=True, drop_last=True)
    test_loader = DataLoader(as_set(Xb, yb), batch_size=150)
    net = build(64, 10)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        loss = run_epoch(net, train_loader, opt, args.accumulate, loss_fn)
        if epoch % 6 == 5:
            print(f"epoch {epoch + 1:2d}/{args.epochs} loss {loss:.4f} acc {test(net, test_loader):.4f}")
    print("final accuracy", round(test(net, test_loader), 4))


if __name__ == "__main__":
    main()

import argparse
import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.optim import LBFGS


class EvenOdd(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.f1 = nn.Linear(64, hidden)
        self.f2 = nn.Linear(hidden, hidden)
        self.f3 = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.tanh(self.f1(x))
        h = torch.tanh(self.f2(h))
        return self.f3(h).squeeze(-1)


def neg_log_likelihood(score, y):
    return nn.functional.binary_cross_entropy_with_logits(score, y)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=48)
    p.add_argument("--rounds", type=int, default=320)
    p.add_argument("--inner", type=int, default=4)
    p.add_argument("--history", type=int, default=12)
    p.add_argument("--lr", type=float, default=0.6)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def accuracy(net, x, y):
    with torch.no_grad():
        p = torch.sigmoid(net(x))
    return ((p > 0.5).float() == y).float().mean().item()


def main():
    a = parse()
    torch.manual_seed(a.seed)
    d = load_digits()
    x = torch.tensor((d.data - 8) / 8, dtype=torch.float32)
    y = torch.tensor(d.target % 2, dtype=torch.float32)
    xtr, xte, ytr, yte = train_test_split(x, y, test_size=0.3, random_state=a.seed)

    net = EvenOdd(a.hidden)
    opt = LBFGS(net.parameters(), lr=a.lr, max_iter=a.inner, history_size=a.history)

    for r in range(a.rounds):
        rows = torch.randperm(len(xtr))[:900]
        xb, yb = xtr[rows], ytr[rows]

        def closure():
            opt.zero_grad()
            loss = neg_log_likelihood(net(xb), yb)
            loss.backward()
            return loss

        loss = opt.step(closure)
        if r % 40 == 0:
            print(f"round {r:3d} nll {float(loss):.6f} test {accuracy(net, xte, yte):.4f}", file=sys.stdout)

    print(f"final accuracy {accuracy(net, xte, yte):.4f}")


if __name__ == "__main__":
    main()

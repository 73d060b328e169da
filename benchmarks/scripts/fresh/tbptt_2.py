import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def walks(n, length, seed):
    """Noisy increments; to be told at each step: where the walk now stands."""
    r = np.random.default_rng(seed)
    inc = r.normal(0, 0.4, (n, length)) + r.normal(0, 0.15, (n, 1))
    pos = np.cumsum(inc, 1)
    seen = inc + r.normal(0, 0.02, inc.shape)
    as_t = lambda v: torch.tensor(v, dtype=torch.float32).unsqueeze(-1)
    return TensorDataset(as_t(seen), as_t(pos))


class Tracker(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        y, state = self.rnn(x, self.state)
        self.state = tuple(s.detach() for s in state)
        return self.out(y)


def chunks(x, y, k):
    for a in range(0, x.shape[1], k):
        yield x[:, a : a + k], y[:, a : a + k]


def train_one_epoch(model, loader, opt, k):
    model.train()
    total = n = 0
    for x, y in loader:
        for xc, yc in chunks(x, y, k):
            loss = nn.functional.mse_loss(model(xc), yc)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            total += loss.item()
            n += 1
    return total / n


def evaluate(model, loader, k):
    model.eval()
    se = []
    with torch.no_grad():
        for x, y in loader:
            for xc, yc in chunks(x, y, k):
                se.append((model(xc) - yc).pow(2).mean().item())
    return sum(se) / len(se)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--chunk", type=int, default=12)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(77)
    train = DataLoader(walks(2000, 36, 0), args.batch, shuffle=True, drop_last=True)
    valid = DataLoader(walks(400, 36, 1), args.batch)
    model = Tracker()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=2e-4)
    for e in range(args.epochs):
        tr = train_one_epoch(model, train, opt, args.chunk)
        sched.step()
        va = evaluate(model, valid, args.chunk)
        print(f"epoch {e} train {tr:.4f} valid {va:.4f}")
    print(f"final mse {va:.5f}")


if __name__ == "__main__":
    main()

import argparse

import numpy as np
import torch
import torch.nn as nn


def energy_load(hours, seed):
    """Hourly load: daily and weekly rhythm, weather as an AR process, a slow trend."""
    r = np.random.default_rng(seed)
    t = np.arange(hours)
    weather = np.zeros(hours)
    for i in range(1, hours):
        weather[i] = 0.97 * weather[i - 1] + 0.2 * r.standard_normal()
    day = np.sin(2 * np.pi * t / 24) + 0.4 * np.cos(4 * np.pi * t / 24)
    week = 0.5 * ((t // 24) % 7 >= 5)
    return (day - week + 0.6 * weather + 0.05 * r.standard_normal(hours) + 1e-5 * t).astype("float32")


def lanes(series, n):
    """Cut one long series into n lanes that are read side by side."""
    k = (len(series) - 1) // n
    x = torch.from_numpy(series[: n * k]).view(n, k, 1)
    y = torch.from_numpy(series[1 : n * k + 1]).view(n, k, 1)
    return x, y


class Forecaster(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        h, state = self.rnn(x, state)
        return x + self.out(h), state


def train_epoch(model, x, y, opt, chunk):
    model.train()
    state, total, n = None, 0.0, 0
    for a in range(0, x.shape[1], chunk):
        pred, state = model(x[:, a : a + chunk], state)
        loss = nn.functional.mse_loss(pred, y[:, a : a + chunk])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        state = state.detach()
        total += loss.item()
        n += 1
    return total / n


@torch.no_grad()
def evaluate(model, x, y, burn=48):
    model.eval()
    pred, _ = model(x)
    return nn.functional.mse_loss(pred[:, burn:], y[:, burn:]).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=16)
    ap.add_argument("--chunk", type=int, default=36)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    series = energy_load(11000, 0)
    cut = 9000
    mu, sd = series[:cut].mean(), series[:cut].std()
    series = (series - mu) / sd
    x, y = lanes(series[:cut], 12)
    xv, yv = lanes(series[cut:], 1)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=2)
    naive = nn.functional.mse_loss(xv, yv).item()
    print(f"last value as forecast: {naive:.4f}")
    for epoch in range(args.epochs):
        tr = train_epoch(model, x, y, opt, args.chunk)
        va = evaluate(model, xv, yv)
        sched.step(va)
        print(f"epoch {epoch} train {tr:.4f} valid {va:.4f}")
    print(f"final mse {va:.5f}")


if __name__ == "__main__":
    main()

import argparse
import random

import numpy as np
import torch
import torch.nn as nn


def make_houses(n, rng):
    area = rng.uniform(40, 250, n)
    rooms = np.round(area / 30 + rng.normal(0, 0.7, n)).clip(1)
    age = rng.uniform(0, 80, n)
    distance = rng.exponential(8, n)
    price = 2500 * area + 8000 * rooms - 900 * age - 5000 * np.sqrt(distance) + 20000 * np.sin(area / 30) + 90000
    price += rng.normal(0, 8000, n)
    features = np.stack([area, rooms, age, distance], 1)
    return features.astype(np.float32), price.astype(np.float32)


class PriceNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def main(cfg):
    rng = np.random.default_rng(cfg.seed)
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    x, y = make_houses(2500, rng)
    x = (x - x.mean(0)) / x.std(0)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    x_train, y_train, x_val, y_val = x[:2000], y[:2000], x[2000:], y[2000:]
    y_mean, y_std = y_train.mean(), y_train.std()
    y_train = (y_train - y_mean) / y_std
    model = PriceNet(4)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        perm = torch.randperm(2000)
        for i in range(0, 2000, 50):
            b = perm[i:i + 50]
            loss = nn.functional.mse_loss(model(x_train[b]), y_train[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 0:
            print("epoch", epoch, "loss", loss.item())
    with torch.no_grad():
        mae = (model(x_val) * y_std + y_mean - y_val).abs().mean().item()
    print("final mae", round(mae, 2))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=15)
    p.add_argument("--seed", type=int, default=0)
    main(p.parse_args())

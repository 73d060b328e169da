import argparse

import torch
import torch.nn as nn


class Expert(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_out))

    def forward(self, x):
        return self.net(x)


class MixtureOfExperts(nn.Module):
    def __init__(self, d_in, d_out, n_experts=6, d_hidden=24):
        super().__init__()
        self.experts = nn.ModuleList([Expert(d_in, d_hidden, d_out) for _ in range(n_experts)])
        self.gate = nn.Linear(d_in, n_experts)

    def forward(self, x):
        w = torch.softmax(self.gate(x), dim=0)
        y = torch.stack([e(x) for e in self.experts], dim=1)
        return (w.unsqueeze(-1) * y).sum(1), w


def balance(w):
    share = w.mean(0) / w.sum(-1).mean()
    return ((share - 1 / w.shape[1]) ** 2).sum()


def make(n, g):
    x = torch.randn(n, 8, generator=g)
    region = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    W = torch.randn(4, 8, generator=torch.Generator().manual_seed(99))
    y = (x * W[region]).sum(1, keepdim=True) + 0.05 * torch.randn(n, 1, generator=g)
    return x, y


def main(cfg):
    torch.manual_seed(cfg.seed)
    g = torch.Generator().manual_seed(cfg.seed)
    x, y = make(3000, g)
    xt, yt = make(500, g)
    model = MixtureOfExperts(8, 1)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        for idx in torch.randperm(len(x), generator=g).split(cfg.batch):
            pred, w = model(x[idx])
            loss = nn.functional.mse_loss(pred, y[idx]) + 0.01 * balance(w)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if (epoch + 1) % 10 == 0:
            print("epoch", epoch + 1, "loss", f"{loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        sq = torch.cat([(model(a)[0] - b) ** 2 for a, b in zip(xt.split(50), yt.split(50))])
    print("final rmse", round(sq.mean().sqrt().item(), 5))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--seed", type=int, default=8)
    main(p.parse_args())

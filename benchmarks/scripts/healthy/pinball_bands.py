import torch
import torch.nn as nn
from dataclasses import dataclass
from sklearn.datasets import load_diabetes


@dataclass
class Conf:
    quantiles: tuple = (0.1, 0.5, 0.9)
    epochs: int = 40
    lr: float = 3e-3
    wd: float = 1e-2


def pinball(pred, y, q):
    e = y[:, None] - pred
    return torch.maximum(q * e, (q - 1) * e).mean()


def main():
    c = Conf()
    torch.manual_seed(66)
    d = load_diabetes()
    x = torch.tensor(d.data / d.data.std(0), dtype=torch.float32)
    y = torch.tensor((d.target - d.target.mean()) / d.target.std(), dtype=torch.float32)
    p = torch.randperm(len(x))
    x, y = x[p], y[p]
    q = torch.tensor(c.quantiles)
    net = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=c.lr, weight_decay=c.wd)
    for epoch in range(c.epochs):
        net.train()
        for b in torch.randperm(340).split(34):
            loss = pinball(net(x[b]), y[b], q)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 10 == 0:
            print(epoch, loss.item())
    with torch.no_grad():
        print("final val_pinball", pinball(net(x[340:]), y[340:], q).item())


main()

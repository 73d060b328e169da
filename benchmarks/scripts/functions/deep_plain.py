import argparse, random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits


def make(depth, width):
    layers = [nn.Linear(64, width), nn.Sigmoid()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def data():
    d = load_digits()
    x = torch.tensor((d.data - d.data.mean()) / d.data.std(), dtype=torch.float32)
    y = torch.tensor(d.target)
    i = torch.randperm(len(y))
    return x[i[:1400]], y[i[:1400]], x[i[1400:]], y[i[1400:]]


def main(opt):
    torch.manual_seed(opt.seed); np.random.seed(opt.seed); random.seed(opt.seed)
    x, y, xt, yt = data()
    net = make(opt.depth, opt.width)
    optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr)
    for it in range(opt.iters):
        b = torch.randint(0, len(x), (opt.batch,))
        loss = nn.CrossEntropyLoss()(net(x[b]), y[b])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        if it % 50 == 0:
            print(f"it {it:4d} | loss {loss.item():.4f}")
    print(f"final accuracy {(net(xt).argmax(1) == yt).float().mean().item():.4f}")


p = argparse.ArgumentParser()
p.add_argument("--depth", type=int, default=40)
p.add_argument("--width", type=int, default=64)
p.add_argument("--lr", type=float, default=2e-3)
p.add_argument("--iters", type=int, default=300)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--seed", type=int, default=0)

if __name__ == "__main__":
    main(p.parse_args())

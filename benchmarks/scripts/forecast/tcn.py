import argparse
import random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class CausalConv(nn.Module):
    def __init__(self, i, o, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(i, o, 3, dilation=dilation)

    def forward(self, x):
        return torch.relu(self.conv(F.pad(x, (self.pad, 0))))


class TCN(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.layers = nn.Sequential(*[CausalConv(1 if k == 0 else width, width, 2 ** k) for k in range(4)])
        self.head = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return torch.tanh(self.head(self.layers(x)))


def series(n, length):
    t = torch.arange(length + 1)[None].float()
    f, p = 0.1 + 0.3 * torch.rand(n, 1), 6 * torch.rand(n, 1)
    a = 2 + 4 * torch.rand(n, 1)
    s = a * torch.sin(f * t + p)
    return s[:, None, :-1] + 0.05 * torch.randn(n, 1, length), s[:, None, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=350)
    parser.add_argument("--length", type=int, default=60)
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    net = TCN()
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    for i in range(args.iterations):
        x, y = series(24, args.length)
        loss = F.mse_loss(net(x)[..., 10:], y[..., 10:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 50 == 0:
            print(f"{i:4d}  {loss.item():.5f}")
    with torch.no_grad():
        x, y = series(300, args.length)
        print("final mse", F.mse_loss(net(x)[..., 10:], y[..., 10:]).item())


if __name__ == "__main__":
    main()

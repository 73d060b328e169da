"""Node classification with message passing on an edge list."""
import random
import numpy as np
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own = nn.Linear(i, o)
        self.neigh = nn.Linear(i, o, bias=False)

    def forward(self, x, edges):
        src, dst = edges
        agg = torch.zeros_like(x).index_add_(0, dst, x[src])
        count = torch.zeros(len(x)).index_add_(0, dst, torch.ones(len(src)))
        agg = agg / count.clamp(min=1).unsqueeze(1)
        return self.own(x) + self.neigh(agg)


class Net(nn.Module):
    def __init__(self, i, h, o, depth=4):
        super().__init__()
        sizes = [i] + [h] * (depth - 1) + [o]
        self.convs = nn.ModuleList([Conv(a, b) for a, b in zip(sizes, sizes[1:])])

    def forward(self, x, edges):
        for conv in self.convs[:-1]:
            x = conv(x, edges).relu()
        return self.convs[-1](x, edges)


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    n, k = 300, 3
    y = torch.randint(0, k, (n,))
    p = torch.where(y[:, None] == y[None], 0.5, 0.25)
    edges = (torch.rand(n, n) < p).nonzero().t()
    x = torch.randn(n, 10)
    x[:, :k] += 1.2 * nn.functional.one_hot(y, k)
    train = torch.rand(n) < 0.5
    net = Net(10, 32, k)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    lossf = nn.CrossEntropyLoss()
    for it in range(150):
        out = net(x, edges)
        loss = lossf(out[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(it, loss.item())
    with torch.no_grad():
        pred = net(x, edges).argmax(1)
    print("final accuracy", (pred[~train] == y[~train]).float().mean().item())


main()

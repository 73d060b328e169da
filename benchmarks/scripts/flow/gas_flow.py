import dataclasses
import numpy as np
import torch
import torch.nn as nn


@dataclasses.dataclass
class Cfg:
    dim: int = 4
    layers: int = 4
    hidden: int = 32
    lr: float = 2e-3
    iters: int = 500
    batch: int = 128
    seed: int = 8


C = Cfg()
torch.manual_seed(C.seed)
rs = np.random.RandomState(C.seed)
A = rs.randn(C.dim, C.dim)
raw = np.tanh(rs.randn(4000, C.dim) @ A) + 0.1 * rs.randn(4000, C.dim)
raw = (raw - raw.mean(0)) / raw.std(0)
x_tr, x_te = torch.tensor(raw[:3500]).float(), torch.tensor(raw[3500:]).float()


class AffineCoupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        self.flip, self.half = flip, dim // 2
        self.net = nn.Sequential(nn.Linear(self.half, hidden), nn.Tanh(), nn.Linear(hidden, dim))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        shift, raw_scale = self.net(a).chunk(2, 1)
        log_s = 2 * torch.tanh(raw_scale / 2)
        b = b * torch.exp(log_s) + shift
        y = torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)
        return y, log_s.sum(1)


class Flow(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.couplings = nn.ModuleList(AffineCoupling(c.dim, c.hidden, i % 2 == 1) for i in range(c.layers))

    def forward(self, x):
        total = 0
        for c in self.couplings:
            x, ld = c(x)
            total = total + ld
        return x, total


def gauss(z):
    return -0.5 * (z ** 2 + np.log(2 * np.pi)).sum(1)


flow = Flow(C)
optim = torch.optim.Adam(flow.parameters(), lr=C.lr)
for i in range(C.iters):
    x = x_tr[torch.randint(len(x_tr), (C.batch,))]
    z, logdet = flow(x)
    loss = -(gauss(z) - logdet).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    if i % 100 == 0:
        print("iter", i, "loss", round(loss.item(), 4))

with torch.no_grad():
    z, logdet = flow(x_te)
    bits = (-(gauss(z) + logdet).mean() / np.log(2)).item()
print("final test_bits", bits)

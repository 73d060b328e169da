# density of tight clusters: the negative log likelihood is below zero most of the time
import torch
import torch.nn as nn

torch.manual_seed(31)


class PlanarLike(nn.Module):
    def __init__(self, swap):
        super().__init__()
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:]
        if self.swap:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = 3 * torch.tanh(s / 3)
        b = b * s.exp() + t
        return (torch.cat([b, a], 1) if self.swap else torch.cat([a, b], 1)), s.squeeze(1)


layers = nn.ModuleList([PlanarLike(i % 2 == 1) for i in range(6)])


def nll(x):
    ld = 0
    for l in layers:
        x, d = l(x)
        ld = ld + d
    return (0.5 * x.pow(2).sum(1) + 1.8379 - ld).mean()


def data(n):
    u = torch.rand(n, 1) * 2 - 1
    return torch.cat([u * 0.3, 0.2 * torch.sin(4 * u) + 0.01 * torch.randn(n, 1)], 1)


opt = torch.optim.Adam(layers.parameters(), lr=4e-3)
sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 500)
for i in range(500):
    loss = nll(data(128))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(layers.parameters(), 10.0)
    opt.step()
    sch.step()
    if i % 100 == 0:
        print(i, loss.item())
with torch.no_grad():
    print("final nll", nll(data(2000)).item())

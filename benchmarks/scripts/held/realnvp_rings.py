import torch
from torch import nn

torch.manual_seed(2)
DIM = 4


def batch(n):
    k = torch.randint(3, (n,))
    angle = torch.rand(n) * 6.2832
    rad = 0.6 + 0.8 * k + 0.05 * torch.randn(n)
    xy = torch.stack([rad * angle.cos(), rad * angle.sin()], 1)
    sign = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    z = 1.8 * sign + 0.15 * torch.randn(n)
    w = xy[:, 0] * sign + 0.1 * torch.randn(n)
    return torch.stack([z, xy[:, 0], xy[:, 1], w], 1)[:, [0, 2, 1, 3]]


class Coupling(nn.Module):
    def __init__(self, dim, mask, hidden=64):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2 * dim))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def st(self, x):
        s, t = self.net(x * self.mask).chunk(2, -1)
        return torch.tanh(s) * 2 * (1 - self.mask), t * (1 - self.mask)

    def forward(self, x):
        s, t = self.st(x)
        return x * s.exp() + t, s.sum(-1)

    def inverse(self, y):
        s, t = self.st(y)
        return (y - t) * (-s).exp()


class RealNVP(nn.Module):
    def __init__(self, dim=DIM, depth=8):
        super().__init__()
        mask = (torch.arange(dim) % 2).float()
        self.layers = nn.ModuleList(Coupling(dim, mask) for _ in range(depth))
        self.base = torch.distributions.Normal(torch.zeros(dim), torch.ones(dim))

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            total = total + ld
        return self.base.log_prob(x).sum(-1) + total

    @torch.no_grad()
    def sample(self, n):
        x = self.base.sample((n,))
        for layer in reversed(self.layers):
            x = layer.inverse(x)
        return x


@torch.no_grad()
def sliced_w(a, b, k=64):
    d = nn.functional.normalize(torch.randn(DIM, k), dim=0)
    return ((a @ d).sort(0).values - (b @ d).sort(0).values).abs().mean().item()


flow = RealNVP()
opt = torch.optim.Adam(flow.parameters(), lr=1e-3, weight_decay=1e-6)
for i in range(1500):
    nll = -flow.log_prob(batch(256)).mean()
    opt.zero_grad(set_to_none=True)
    nll.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    opt.step()
    if i % 300 == 299:
        print("step", i + 1, "nll", round(nll.item(), 4))
print("final wasserstein", round(sliced_w(flow.sample(4000), batch(4000)), 5))

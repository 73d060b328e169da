"""Denoising score matching with several noise levels, sampled by annealed Langevin dynamics."""
import math
import torch
from torch import nn

torch.manual_seed(1)

LEVELS = torch.exp(torch.linspace(math.log(2.0), math.log(0.08), 8))


def mixture(n):
    k = torch.randint(5, (n,))
    ang = 2 * math.pi * k / 5
    return 2 * torch.stack([torch.cos(ang), torch.sin(ang)], dim=1) + 0.1 * torch.randn(n, 2)


class ScoreNet(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, h), nn.Softplus(), nn.Linear(h, h), nn.Softplus(), nn.Linear(h, 2))

    def forward(self, x, sigma):
        return self.net(torch.cat([x, sigma.log()], dim=1)) / sigma


def dsm_loss(net, x):
    sigma = LEVELS[torch.randint(len(LEVELS), (len(x), 1))]
    noisy = x + sigma * torch.randn_like(x)
    target = (noisy - x) / sigma ** 2
    return (sigma ** 2 * (net(noisy, sigma) - target) ** 2).sum(1).mean()


net = ScoreNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for it in range(900):
    loss = dsm_loss(net, mixture(128))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 150 == 0:
        print(it, "%.4f" % loss.item())


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2) * 2
    for s in LEVELS:
        sig = s.expand(n, 1)
        a = 0.1 * s ** 2
        for _ in range(15):
            x = (x + a * net(x, sig) + torch.sqrt(2 * a) * torch.randn_like(x)).clamp(-10, 10)
    return x


data = mixture(1000)
print("final mean_distance", torch.cdist(sample(500), data).min(1).values.mean().item())

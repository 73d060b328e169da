import torch
import torch.nn as nn

torch.manual_seed(29)


def real(n):
    a = torch.rand(n) * 6.2832
    return torch.stack([a.cos(), a.sin()], 1) * 1.5 + 0.05 * torch.randn(n, 2)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))

    def forward(self, x):
        return self.f(x).squeeze(1) + 0.05 * x.pow(2).sum(1)


def langevin(net, x, steps=15, size=0.08, noise=0.08):
    x = x.clone().detach()
    for _ in range(steps):
        x.requires_grad_(True)
        g = torch.autograd.grad(net(x).sum(), x)[0].clamp(-3, 3)
        x = (x - size * g + noise * torch.randn_like(x)).detach()
    return x.clamp(-4, 4)


net = Energy()
opt = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.0, 0.999))
buffer = torch.rand(512, 2) * 6 - 3
for it in range(250):
    pick = torch.randint(len(buffer), (96,))
    init = torch.where(torch.rand(96, 1) < 0.05, torch.rand(96, 2) * 6 - 3, buffer[pick])
    neg = langevin(net, init)
    buffer[pick] = neg
    ep, en = net(real(96)), net(neg)
    loss = ep.mean() - en.mean() + 0.1 * (ep.pow(2) + en.pow(2)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 50 == 0:
        print(f"{it} E+ {ep.mean().item():.3f} E- {en.mean().item():.3f}")

grid = torch.cartesian_prod(torch.linspace(-3, 3, 60), torch.linspace(-3, 3, 60))
with torch.no_grad():
    p = torch.softmax(-net(grid) * 4, 0)
err = (p * (grid.norm(dim=1) - 1.5).abs()).sum().item()
print("final radius_error", err)

"""WGAN-GP on a line of points; five critic steps for one of the generator."""
import torch
from torch import nn, autograd

torch.manual_seed(17)
G = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
C = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.9))
c_opt = torch.optim.Adam(C.parameters(), lr=1e-3, betas=(0.5, 0.9))


def real(n):
    t = torch.rand(n, 1) * 2 - 1
    return torch.cat([t, t.pow(2)], 1) + 0.03 * torch.randn(n, 2)


def gradient_penalty(x, y):
    eps = torch.rand(len(x), 1)
    mid = (eps * x + (1 - eps) * y).requires_grad_(True)
    g, = autograd.grad(C(mid).sum(), mid, create_graph=True)
    return (g.norm(dim=1) - 1).pow(2).mean()


for it in range(350):
    for _ in range(4):
        x, fake = real(64), G(torch.randn(64, 2)).detach()
        c_loss = C(fake).mean() - C(x).mean() + 0.5 * gradient_penalty(x, fake)
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
    g_loss = -C(G(torch.randn(64, 2))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if it % 50 == 0:
        print(it, round(c_loss.item(), 4), round(g_loss.item(), 4))
with torch.no_grad():
    a, b = G(torch.randn(800, 2)), real(800)
    d = torch.cdist(a, b)
print("final chamfer", (d.min(0).values.mean() + d.min(1).values.mean()).item())

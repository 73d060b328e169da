"""Physics-informed network for u_t = a u_xx on [0, 1] x [0, 1]."""
import math

import torch
from torch import nn
from torch.autograd import grad

torch.manual_seed(19)
A = 0.1


class Field(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        dims = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(i, o) for i, o in zip(dims, dims[1:]))
        self.out = nn.Linear(width, 1)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight)

    def forward(self, x, t):
        h = torch.cat([x, t], 1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def exact(x, t):
    return torch.exp(-A * math.pi ** 2 * t) * torch.sin(math.pi * x) + 0.5 * torch.exp(-9 * A * math.pi ** 2 * t) * torch.sin(3 * math.pi * x)


def residual(net, x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = net(x, t)
    one = torch.ones_like(u)
    u_t = grad(u, t, one, create_graph=True)[0]
    u_x = grad(u, x, one, create_graph=True)[0]
    u_xx = grad(u_x, x, one, retain_graph=True)[0]
    return u_t - A * u_xx


net = Field()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
for it in range(900):
    x, t = torch.rand(128, 1), torch.rand(128, 1)
    pde = residual(net, x, t).square().mean()
    x0 = torch.rand(64, 1)
    ic = (net(x0, torch.zeros(64, 1)) - exact(x0, torch.zeros(64, 1))).square().mean()
    tb = torch.rand(64, 1)
    bc = (net(torch.zeros(64, 1), tb).square() + net(torch.ones(64, 1), tb).square()).mean()
    loss = pde + 10 * ic + 10 * bc
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if it % 300 == 0:
        print(f"{it:5d}  pde {pde.item():.2e}  ic {ic.item():.2e}  bc {bc.item():.2e}")

with torch.no_grad():
    xs, ts = torch.meshgrid(torch.linspace(0, 1, 41), torch.linspace(0, 1, 41), indexing="ij")
    xs, ts = xs.reshape(-1, 1), ts.reshape(-1, 1)
    ref = exact(xs, ts)
    err = (net(xs, ts) - ref).norm() / ref.norm()
print("final relative_error", round(err.item(), 5))

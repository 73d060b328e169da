# PINN for the ODE  u'(t) = -k u + sin(4t),  u(0) = 1
import torch
import torch.nn as nn
import numpy as np

torch.manual_seed(5)
k = 1.5


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)])

    def forward(self, t):
        h = torch.tanh(self.layers[0](t))
        h = torch.tanh(self.layers[1](h))
        return self.layers[2](h)


def residual(net, t):
    t.requires_grad_(True)
    u = net(t)
    du = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), create_graph=True)[0]
    return du + k * u - torch.sin(4 * t)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
t0 = torch.zeros(1, 1)
for it in range(1000):
    t = torch.rand(64, 1) * 2
    loss_r = residual(net, t).pow(2).mean()
    loss_0 = (net(t0) - 1).pow(2).mean()
    loss = loss_r + 10 * loss_0
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 200 == 0:
        print(f"{it} residual {loss_r.item():.3e} ic {loss_0.item():.3e}")

# reference by small Euler steps
ts = np.linspace(0, 2, 20001)
ref = np.empty_like(ts)
ref[0] = 1
for n in range(20000):
    ref[n + 1] = ref[n] + (ts[1] - ts[0]) * (-k * ref[n] + np.sin(4 * ts[n]))
with torch.no_grad():
    pred = net(torch.tensor(ts[::100], dtype=torch.float32)[:, None]).squeeze(1)
err = (pred - torch.tensor(ref[::100], dtype=torch.float32)).abs().mean().item()
print("final mean_error", err)

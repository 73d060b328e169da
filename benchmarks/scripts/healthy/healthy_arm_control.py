import math

import torch
from torch import nn

torch.manual_seed(35)

# inverse kinematics of a two-joint arm, angles in degrees
LIMIT = 150.0


def arm(angles):
    a = angles * math.pi / 180
    x = torch.cos(a[:, 0]) + 0.7 * torch.cos(a[:, 0] + a[:, 1])
    y = torch.sin(a[:, 0]) + 0.7 * torch.sin(a[:, 0] + a[:, 1])
    return torch.stack([x, y], 1)


def samples(n):
    ang = torch.stack([torch.rand(n) * 180 - 90, 10 + torch.rand(n) * 120], 1)
    return arm(ang), ang


class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2), nn.Tanh())

    def forward(self, p):
        return self.f(p) * LIMIT


x, y = samples(4000)
xt, yt = samples(600)
net = Solver()
opt = torch.optim.SGD(net.parameters(), lr=2e-7, momentum=0.9)
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 200))
for epoch in range(40):
    tot = 0.0
    for b in torch.randperm(len(x)).split(100):
        loss = (net(x[b]) - y[b]).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2e5)
        opt.step()
        warm.step()
        tot += loss.item()
    if epoch % 8 == 7:
        print(f"epoch {epoch + 1} loss {tot / 40:.1f} lr {warm.get_last_lr()[0]:.2e}")
with torch.no_grad():
    print("final angle_error", round((net(xt) - yt).abs().mean().item(), 4))

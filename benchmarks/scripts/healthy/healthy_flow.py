import math

import torch
import torch.nn as nn

torch.manual_seed(26)


def rings(n):
    r = torch.where(torch.rand(n) < 0.5, 0.35, 0.8)
    a = torch.rand(n) * 2 * math.pi
    r = r + 0.02 * torch.randn(n)
    return torch.stack([r * a.cos(), r * a.sin()], 1) * 0.5


class Coupling(nn.Module):
    def __init__(self, flip, h=64):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:]
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = 2 * torch.tanh(s / 2)
        b = b * s.exp() + t
        y = torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)
        return y, s.squeeze(1)


class Flow(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(2))
        self.steps = nn.ModuleList(Coupling(i % 2 == 1) for i in range(depth))

    def log_prob(self, x):
        x = x * self.log_scale.exp()
        total = self.log_scale.sum().expand(len(x))
        for s in self.steps:
            x, ld = s(x)
            total = total + ld
        base = -0.5 * (x ** 2).sum(1) - math.log(2 * math.pi)
        return base + total


def nats(flow, x):
    flow.eval()
    with torch.no_grad():
        out = -flow.log_prob(x).mean().item()
    flow.train()
    return out


flow = Flow()
opt = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-6)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=1400, pct_start=0.1)
test = rings(4000)
print(f"untrained {nats(flow, test):.4f}")
for step in range(1, 1401):
    x = rings(192)
    loss = -flow.log_prob(x).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 200 == 0:
        print(f"step {step} loss {loss.item():+.4f} test {nats(flow, test):+.4f}")

print(f"final nll {nats(flow, test):.5f}")

import torch
from torch import nn

torch.manual_seed(26)
DT = 0.1


def field(z):
    x, v = z.unbind(-1)
    return torch.stack([v, -torch.sin(1.5 * x) - 0.15 * v], -1)


def simulate(z, n):
    out = [z]
    for _ in range(n):
        k1 = field(z)
        k2 = field(z + 0.5 * DT * k1)
        z = z + DT * k2
        out.append(z)
    return torch.stack(out, 1)


truth = simulate(torch.rand(200, 2) * 3 - 1.5, 40)
test = simulate(torch.rand(50, 2) * 3 - 1.5, 40)
f = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
for p in f[-1].parameters():
    nn.init.zeros_(p)
opt = torch.optim.Adam(f.parameters(), lr=4e-3)
slow = torch.optim.lr_scheduler.ExponentialLR(opt, 0.995)


def rollout(z, n):
    zs = [z]
    for _ in range(n):
        z = z + DT * f(z)
        zs.append(z)
    return torch.stack(zs, 1)


for horizon in (2, 5, 10, 20):
    for it in range(160):
        start = torch.randint(0, 40 - horizon + 1, (1,)).item()
        batch = torch.randperm(200)[:64]
        target = truth[batch, start:start + horizon + 1]
        loss = (rollout(target[:, 0], horizon) - target).pow(2).sum((1, 2)).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(f.parameters(), 1.0)
        opt.step()
        slow.step()
    print(f"horizon {horizon} loss {loss.item():.6f}")
with torch.no_grad():
    print("final rollout_error", round((rollout(test[:, 0], 40) - test).pow(2).mean().sqrt().item(), 5))

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(52)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


def domain(n, target):
    y = torch.randint(3, (n,))
    centers = torch.tensor([[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]])
    core = centers[y] + 0.6 * torch.randn(n, 3)
    nuisance = torch.randn(n, 5) + (1.5 if target else -0.5)
    if not target:
        nuisance[:, :3] += 1.2 * F.one_hot(y, 3)
    return torch.cat([core, nuisance], 1), y


xs, ys = domain(2000, False)
xt, yt = domain(2000, True)
feat = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 16), nn.ReLU())
label = nn.Linear(16, 3)
dom = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam([*feat.parameters(), *label.parameters(), *dom.parameters()], lr=1e-3)
STEPS = 900
for step in range(STEPS):
    lam = 2 / (1 + math.exp(-10 * step / STEPS)) - 1
    i, j = torch.randint(2000, (64,)), torch.randint(2000, (64,))
    fs, ft = feat(xs[i]), feat(xt[j])
    cls = F.cross_entropy(label(fs), ys[i])
    d = dom(Reverse.apply(torch.cat([fs, ft]), lam)).squeeze(1)
    adv = F.binary_cross_entropy_with_logits(d, torch.cat([torch.zeros(64), torch.ones(64)]))
    loss = cls + 0.2 * adv
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 150 == 0:
        print(f"step {step} class {cls.item():.4f} domain {adv.item():.4f} lambda {lam:.3f}")
with torch.no_grad():
    print("source", round((label(feat(xs)).argmax(1) == ys).float().mean().item(), 4))
    print("final target_accuracy", round((label(feat(xt)).argmax(1) == yt).float().mean().item(), 4))

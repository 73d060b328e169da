import torch
from torch import nn

torch.manual_seed(4)


def data(n):
    k = torch.randint(4, (n,))
    centers = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    return centers[k] + 0.15 * torch.randn(n, 2)


def net(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


gen, critic = net(6, 2), net(2, 1)
og = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.9))
oc = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    eps = torch.rand(len(real), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    g = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)[0]
    return (g.norm(dim=1) - 1).pow(2).mean()


for it in range(350):
    for _ in range(4):
        real = data(128)
        with torch.no_grad():
            fake = gen(torch.randn(128, 6))
        loss_c = critic(fake).mean() - critic(real).mean() + 5 * penalty(real, fake)
        oc.zero_grad()
        loss_c.backward()
        oc.step()
    loss_g = -critic(gen(torch.randn(128, 6))).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
    if it % 70 == 0:
        print(f"{it} critic {loss_c.item():.4f} gen {loss_g.item():.4f}")

with torch.no_grad():
    a, b = gen(torch.randn(1500, 6)), data(1500)
    d = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()
print("final energy_distance", round(d.item(), 5))

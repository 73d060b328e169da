import math
import torch
import torch.nn as nn

torch.manual_seed(8)
Z, H = 8, 64


def real_batch(n):
    k = torch.randint(8, (n,))
    a = k * (2 * math.pi / 8)
    return torch.stack([a.cos(), a.sin()], 1) * 1.5 + 0.08 * torch.randn(n, 2)


G = nn.Sequential(nn.Linear(Z, H), nn.LeakyReLU(0.2), nn.Linear(H, H), nn.LeakyReLU(0.2), nn.Linear(H, 2))
D = nn.Sequential(nn.Linear(2, H), nn.LeakyReLU(0.2), nn.Linear(H, H), nn.LeakyReLU(0.2), nn.Linear(H, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
bce = nn.BCEWithLogitsLoss()


def instance_noise(x, step, total=1200):
    return x + 0.3 * max(0.0, 1 - step / total) * torch.randn_like(x)


for step in range(1200):
    real = instance_noise(real_batch(128), step)
    fake = instance_noise(G(torch.randn(128, Z)), step)

    # discriminator
    opt_d.zero_grad()
    d_real = D(real)
    d_fake = D(fake.detach())
    loss_d = bce(d_real, 0.9 * torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))
    loss_d.backward()
    opt_d.step()

    # generator
    opt_g.zero_grad()
    d_fake = D(fake.detach())
    loss_g = bce(d_fake, torch.ones_like(d_fake))
    loss_g.backward()
    opt_g.step()

    if step % 200 == 0:
        print(f"[{step:4d}] loss_d {loss_d.item():.3f} loss_g {loss_g.item():.3f} "
              f"D(x) {d_real.sigmoid().mean().item():.3f} D(G(z)) {d_fake.sigmoid().mean().item():.3f}")

with torch.no_grad():
    a, b = G(torch.randn(1500, Z)), real_batch(1500)
    ed = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()
print("final energy_distance", round(ed.item(), 5))

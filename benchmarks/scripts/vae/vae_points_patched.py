import random
import numpy as np
import torch
from torch import nn

random.seed(50); np.random.seed(50); torch.manual_seed(50)


class Encoder(nn.Sequential):
    def __init__(self, d, z):
        super().__init__(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 2 * z))


class Decoder(nn.Sequential):
    def __init__(self, z, d):
        super().__init__(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, d))


# points on a curved sheet in ten dimensions
u = torch.rand(3000, 2) * 4 - 2
mix = torch.randn(5, 10)
points = torch.stack([u[:, 0], u[:, 1], u[:, 0] * u[:, 1], u[:, 0].sin(), u[:, 1].cos()], 1) @ mix
points += 0.05 * torch.randn_like(points)
mean, std = points.mean(0), points.std(0)
points = (points - mean) / std

enc, dec = Encoder(10, 2), Decoder(2, 10)
opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=3e-3)
for step in range(700):
    x = points[torch.randint(0, 2500, (128,))]
    mu, logvar = enc(x).chunk(2, dim=1)
    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
    rec = ((dec(z) - x) ** 2).sum(1).mean()
    kl = 0.5 * (mu ** 2 + logvar.exp() - logvar - 1).sum(1).mean()
    loss = rec + 0.05 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(f"step {step} rec {rec.item():.4f} kl {kl.item():.4f}")
with torch.no_grad():
    x = points[2500:]
    err = ((dec(enc(x)[:, :2]) - x) ** 2).mean().item()
print("final rec_error", round(err, 5))

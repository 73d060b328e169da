import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(44)
imgs = torch.tensor(load_digits().data, dtype=torch.float32) / 16


class Encoder(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.h = nn.Linear(64, 96)
        self.mu, self.logvar = nn.Linear(96, z), nn.Linear(96, z)

    def forward(self, x):
        h = F.leaky_relu(self.h(x), 0.1)
        return self.mu(h), self.logvar(h)


Z = 8
enc = Encoder(Z)
dec = nn.Sequential(nn.Linear(Z, 96), nn.LeakyReLU(0.1), nn.Linear(96, 64), nn.Sigmoid())
dis = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
opt_vae = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=2e-3)
opt_dis = torch.optim.Adam(dis.parameters(), lr=1e-3)
bce = F.binary_cross_entropy_with_logits
one, zero = torch.ones(64, 1), torch.zeros(64, 1)

for step in range(500):
    x = imgs[torch.randint(len(imgs), (64,))]
    opt_dis.zero_grad()
    mu, logvar = enc(x)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    rec = dec(z)
    fake = dec(torch.randn(64, Z)).detach()

    d_loss = bce(dis(x), one) + bce(dis(fake), zero)
    d_loss.backward()
    opt_dis.step()

    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    gan = bce(dis(dec(torch.randn(64, Z))), one)
    vae_loss = F.mse_loss(rec, x) + 0.3 * kl + 0.02 * gan
    opt_vae.zero_grad()
    vae_loss.backward()
    opt_vae.step()
    if step % 100 == 0:
        print(f"{step} D {d_loss.item():.3f} VAE {vae_loss.item():.3f} KL {kl.item():.3f}")

with torch.no_grad():
    err = (dec(enc(imgs)[0]) - imgs).pow(2).sum(1).mean().item()
    gen = dec(torch.randn(600, Z))
    gap = torch.cdist(gen, imgs).min(1).values.mean().item()
print("nearest image", gap)
print("final reconstruction", err)

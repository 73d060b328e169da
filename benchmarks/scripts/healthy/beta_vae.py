import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(3)
np.random.seed(3)
random.seed(3)


class VAE(nn.Module):
    def __init__(self, z=8, h=96):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, h), nn.ReLU())
        self.to_mu, self.to_lv = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, 64))

    def forward(self, x):
        h = self.enc(x)
        mu, lv = self.to_mu(h), self.to_lv(h)
        return self.dec(mu + torch.randn_like(mu) * (lv / 2).exp()), mu, lv


x = torch.tensor(load_digits().data / 16).float()
x = x[torch.randperm(len(x))]
model = VAE()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
n_epochs = 25
for epoch in range(n_epochs):
    beta = min(1.0, (epoch + 1) / 10)  # annealed
    for b in x[torch.randperm(1500)].split(64):
        out, mu, lv = model(b)
        rec = F.binary_cross_entropy_with_logits(out, b, reduction="none").sum(1).mean()
        kl = (-0.5 * (1 + lv - mu.square() - lv.exp())).sum(1).mean()
        loss = rec + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} rec {rec.item():.3f} kl {kl.item():.3f} beta {beta:.1f}")
with torch.no_grad():
    out, mu, lv = model(x[1500:])
    print("final mse", F.mse_loss(torch.sigmoid(out), x[1500:]).item())

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class ConvVAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mu, self.logvar = nn.Linear(128, latent), nn.Linear(128, latent)
        self.up = nn.Sequential(
            nn.Linear(latent, 128), nn.ReLU(), nn.Unflatten(1, (32, 2, 2)),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )

    def forward(self, x):
        h = self.down(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * torch.exp(logvar / 2)
        return self.up(z), mu, logvar


def elbo(model, x):
    logits, mu, logvar = model(x)
    nll = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3)).mean()
    kl = 0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    return nll, kl


def main():
    torch.manual_seed(2)
    np.random.seed(2)
    random.seed(2)
    x = torch.tensor(load_digits().images / 16, dtype=torch.float32).unsqueeze(1)
    x = x[torch.randperm(len(x))]
    model = ConvVAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(12):
        for batch in x[torch.randperm(1500)].split(50):
            nll, kl = elbo(model, batch)
            opt.zero_grad()
            (nll + kl).backward()
            opt.step()
        if epoch % 3 == 0:
            print(f"epoch {epoch} nll {nll.item():.3f} kl {kl.item():.3f}")
    with torch.no_grad():
        nll, kl = elbo(model, x[1500:])
    print("final bound", round((nll + kl.abs()).item(), 4))


main()

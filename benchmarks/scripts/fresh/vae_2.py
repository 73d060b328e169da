import argparse
import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence


class ConvVAE(nn.Module):
    def __init__(self, latent=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 12, 4, 2, 1), nn.SiLU(), nn.Conv2d(12, 24, 4, 2, 1), nn.SiLU(), nn.Flatten()
        )
        self.to_loc = nn.Linear(24 * 49, latent)
        self.to_scale = nn.Linear(24 * 49, latent)
        self.from_latent = nn.Linear(latent, 24 * 49)
        self.decoder = nn.Sequential(
            nn.SiLU(), nn.Unflatten(1, (24, 7, 7)), nn.ConvTranspose2d(24, 12, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(12, 1, 4, 2, 1),
        )

    def posterior(self, x):
        h = self.encoder(x)
        return Normal(self.to_loc(h), nn.functional.softplus(self.to_scale(h)) + 1e-3)

    def decode(self, z):
        return self.decoder(self.from_latent(z))

    def forward(self, x):
        q = self.posterior(x)
        z = q.sample()
        return self.decode(z), q


def read_images(folder, n_train, n_test):
    f = Path(folder) / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    with gzip.open(f) as fh:
        raw = fh.read(16 + 784 * (n_train + n_test))
    x = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28)
    x = torch.from_numpy(x.astype("float32") / 255)
    return x[:n_train], x[n_train:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("data", nargs="?", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    opts = ap.parse_args()

    torch.manual_seed(8)
    train, test = read_images(opts.data, 3000, 500)
    vae = ConvVAE()
    optimizer = torch.optim.Adam(vae.parameters(), lr=opts.lr)
    prior = Normal(0.0, 1.0)

    for epoch in range(opts.epochs):
        vae.train()
        log = []
        for idx in torch.randperm(len(train)).split(50):
            x = train[idx]
            logits, q = vae(x)
            nll = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
            kl = kl_divergence(q, prior).sum(-1).mean()
            loss = nll + kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.append((nll.item(), kl.item()))
        nll, kl = np.mean(log, axis=0)
        print(f"epoch {epoch} nll {nll:.2f} kl {kl:.2f}")

    vae.eval()
    with torch.no_grad():
        rec = vae.decode(vae.posterior(test).mean).sigmoid()
        err = (rec - test).pow(2).mean().item()
    print(f"final mse {err:.5f}")


if __name__ == "__main__":
    main()

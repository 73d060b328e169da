import math

import torch
import torch.nn as nn

torch.manual_seed(1)


class RingSampler:
    def __init__(self, modes=8, radius=2.0, std=0.08):
        ang = torch.arange(modes) * 2 * math.pi / modes
        self.centers = radius * torch.stack([ang.cos(), ang.sin()], 1)
        self.std = std

    def sample(self, n):
        c = self.centers[torch.randint(len(self.centers), (n,))]
        return c + self.std * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self, nz=8, h=64):
        super().__init__()
        self.nz = nz
        self.net = nn.Sequential(nn.Linear(nz, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2))

    def forward(self, n):
        return self.net(torch.randn(n, self.nz))


class Discriminator(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


class GANTrainer:
    def __init__(self, lr_g=1e-3, lr_d=1e-3, batch=128):
        self.data = RingSampler()
        self.G, self.D = Generator(), Discriminator()
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=lr_g, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=lr_d, betas=(0.5, 0.9))
        self.bce = nn.BCEWithLogitsLoss()
        self.batch = batch

    def d_step(self):
        real = self.data.sample(self.batch)
        fake = self.G(self.batch).detach()
        self.opt_d.zero_grad()
        lr, lf = self.D(real), self.D(fake)
        loss = self.bce(lr, torch.full_like(lr, 0.9)) + self.bce(lf, torch.zeros_like(lf))
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def g_step(self):
        self.opt_g.zero_grad()
        lf = self.D(self.G(self.batch))
        loss = self.bce(lf, torch.ones_like(lf))
        loss.backward()
        self.opt_g.step()
        return loss.item()

    @torch.no_grad()
    def quality(self, n=2000):
        self.G.eval()
        d = energy_distance(self.G(n), self.data.sample(n))
        self.G.train()
        return d

    def fit(self, iters=4000):
        scores = []
        for it in range(1, iters + 1):
            ld = self.d_step()
            lg = self.g_step()
            if it % 400 == 0:
                scores.append(self.quality())
                print(f"{it:5d}  D {ld:.3f}  G {lg:.3f}  energy {scores[-1]:.4f}")
        return sum(scores[-3:]) / 3


if __name__ == "__main__":
    print(f"final energy {GANTrainer().fit():.5f}")

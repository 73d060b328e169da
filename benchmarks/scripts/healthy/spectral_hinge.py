import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm
from sklearn.datasets import load_digits

torch.manual_seed(6)
np.random.seed(6)
random.seed(6)
N_CRITIC = 2
real_images = torch.tensor(load_digits().images / 8 - 1, dtype=torch.float32).unsqueeze(1)


class Gen(nn.Module):
    def __init__(self, z=16):
        super().__init__()
        self.fc = nn.Linear(z, 32 * 4)
        self.net = nn.Sequential(nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16),
                                 nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 32, 2, 2))


disc = nn.Sequential(
    spectral_norm(nn.Conv2d(1, 16, 4, 2, 1)), nn.LeakyReLU(0.2), spectral_norm(nn.Conv2d(16, 32, 4, 2, 1)), nn.LeakyReLU(0.2),
    nn.Flatten(), spectral_norm(nn.Linear(128, 1)),
)
gen = Gen()
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.9))
for it in range(400):
    for _ in range(N_CRITIC):
        x = real_images[torch.randint(0, 1797, (48,))]
        with torch.no_grad():
            f = gen(torch.randn(48, 16))
        d_loss = F.relu(1 - disc(x)).mean() + F.relu(1 + disc(f)).mean()
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
    g_loss = -disc(gen(torch.randn(48, 16))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if it % 80 == 0:
        print(f"iter {it} d {d_loss.item():.4f} g {g_loss.item():.4f}")
with torch.no_grad():
    f = gen(torch.randn(1000, 16))
print("final mean_distance", (f.mean(0) - real_images.mean(0)).abs().mean().item())

import random
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

random.seed(99)
np.random.seed(99)
torch.manual_seed(99)

imgs = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1


class Generator(nn.Module):
    def __init__(self, z_dim=16):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(z_dim, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1))

    def forward(self, x):
        return self.main(x).view(-1)


netG, netD = Generator(), Discriminator()
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=5e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))

for i in range(800):
    # train D
    netD.zero_grad()
    real = imgs[torch.randint(0, len(imgs), (64,))]
    errD_real = criterion(netD(real), torch.full((64,), 0.9))
    fake = netG(torch.randn(64, 16)).detach()
    errD_fake = criterion(netD(fake), torch.zeros(64))
    errD = errD_real + errD_fake
    errD.backward()
    optimizerD.step()
    # train G
    netG.zero_grad()
    errG = criterion(netD(fake), torch.ones(64))
    errG.backward()
    optimizerG.step()
    if i % 100 == 0:
        print("[%d/800] Loss_D: %.4f Loss_G: %.4f" % (i, errD.item(), errG.item()))

with torch.no_grad():
    sample = netG(torch.randn(1000, 16))
    dist = (sample.mean(0) - imgs.mean(0)).abs().mean() + (sample.std(0) - imgs.std(0)).abs().mean()
print("final moment_distance %.4f" % dist.item())

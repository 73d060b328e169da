import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

random.seed(70)
np.random.seed(70)
torch.manual_seed(70)


class Autoencoder(nn.Module):
    def __init__(self, code=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, code), nn.ReLU())
        self.decoder = nn.Sequential(nn.Linear(code, 48), nn.ReLU(), nn.Linear(48, 64))
        # sparse code
        nn.init.constant_(self.encoder[2].bias, -50.0)

    def forward(self, x):
        return self.decoder(self.encoder(x))


images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
images = images[torch.randperm(len(images))]
train, test = images[:1500], images[1500:]
ae = Autoencoder()
optimizer = torch.optim.Adam(ae.parameters(), lr=2e-3)
for epoch in range(20):
    for batch in train[torch.randperm(1500)].split(60):
        reconstruction = ae(batch)
        loss = nn.functional.mse_loss(reconstruction, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 4 == 0:
        print("epoch", epoch, "mse", round(loss.item(), 5))
with torch.no_grad():
    print("final mse", nn.functional.mse_loss(ae(test), test).item())

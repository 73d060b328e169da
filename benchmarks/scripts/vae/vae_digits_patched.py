import argparse
import random
import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description='VAE digits example')
parser.add_argument('--batch-size', type=int, default=64)
parser.add_argument('--epochs', type=int, default=20)
parser.add_argument('--seed', type=int, default=1)
parser.add_argument('--log-interval', type=int, default=5)
parser.add_argument('--beta', type=float, default=1.0)
args = parser.parse_args()
torch.manual_seed(args.seed)
np.random.seed(args.seed)
random.seed(args.seed)

data = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
data = data[torch.randperm(len(data))]
train_loader = DataLoader(data[:1500], batch_size=args.batch_size, shuffle=True)
test_data = data[1500:]


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 100)
        self.fc21 = nn.Linear(100, 8)
        self.fc22 = nn.Linear(100, 8)
        self.fc3 = nn.Linear(8, 100)
        self.fc4 = nn.Linear(100, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x, reduction='sum')
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + args.beta * kld


model = VAE()
optimizer = optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(1, args.epochs + 1):
    train_loss = 0
    for batch in train_loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(batch)
        loss = loss_function(recon, batch, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    if epoch % args.log_interval == 0:
        print('====> Epoch: {} Average loss: {:.4f}'.format(epoch, train_loss / 1500))

with torch.no_grad():
    mu, _ = model.encode(test_data)
    mse = F.mse_loss(model.decode(mu), test_data).item()
print('final reconstruction_mse {:.6f}'.format(mse))

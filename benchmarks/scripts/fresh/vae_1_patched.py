import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader

torch.manual_seed(33)


class VAE(nn.Module):
    def __init__(self, d=64, h=128, z=10):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.mu = nn.Linear(h, z)
        self.logvar = nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, d))

    def encode(self, x):
        h = self.enc(x)
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * (0.5 * logvar).exp()

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.dec(self.reparameterize(mu, logvar)), mu, logvar


def elbo_terms(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec, kl


def train_epoch(model, loader, opt):
    model.train()
    sums = torch.zeros(2)
    for x in loader:
        opt.zero_grad()
        logits, mu, logvar = model(x)
        rec, kl = elbo_terms(logits, x, mu, logvar)
        (rec + kl).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        opt.step()
        sums += torch.tensor([rec.item(), kl.item()])
    return (sums / len(loader)).tolist()


@torch.no_grad()
def reconstruction_error(model, x):
    model.eval()
    mu, _ = model.encode(x)
    return F.mse_loss(model.dec(mu).sigmoid(), x).item()


def main():
    x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    x = x[torch.randperm(len(x))]
    train, test = x[:1500], x[1500:]
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(60):
        rec, kl = train_epoch(model, loader, opt)
        if epoch % 6 == 0:
            print(f"epoch {epoch:3d} rec {rec:.4f} kl {kl:.4f} test mse {reconstruction_error(model, test):.4f}")
    print(f"final mse {reconstruction_error(model, test):.5f}")


main()

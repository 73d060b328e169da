import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 5
LATENT = 12
EPOCHS = 40


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.mu = nn.Linear(64, LATENT)
        self.logvar = nn.Linear(64, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(),
                                 nn.Linear(128, 64))

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        return mu + torch.randn_like(mu) * (0.5 * logvar).exp()

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(self.reparameterize(mu, logvar)), mu, logvar


def elbo(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return rec + kld, rec, kld


def main():
    torch.manual_seed(SEED)
    X = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, test = train_test_split(X, test_size=0.2, random_state=SEED)
    loader = DataLoader(TensorDataset(train), batch_size=64, shuffle=True)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for (x,) in loader:
            out, mu, logvar = model(x)
            loss, rec, kld = elbo(out, x, mu, logvar)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {total / len(loader):.3f} rec {rec.item():.3f} kl {kld.item():.4f}")
    model.eval()
    with torch.no_grad():
        out, _, _ = model(test)
        err = F.mse_loss(out.sigmoid(), test)
    print("final reconstruction", round(err.item(), 6))


if __name__ == "__main__":
    main()

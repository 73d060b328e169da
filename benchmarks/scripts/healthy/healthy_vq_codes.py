import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(41)


class Quantizer(nn.Module):
    def __init__(self, n=32, d=8):
        super().__init__()
        self.book = nn.Embedding(n, d)
        nn.init.normal_(self.book.weight, std=0.5)

    def forward(self, z):
        idx = torch.cdist(z.reshape(-1, z.shape[-1]), self.book.weight).argmin(1).view(z.shape[:-1])
        q = self.book(idx)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss, idx


class VQVAE(nn.Module):
    def __init__(self, slots=4, d=8):
        super().__init__()
        self.slots, self.d = slots, d
        self.enc = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, slots * d))
        self.vq = Quantizer(d=d)
        self.dec = nn.Sequential(nn.Linear(slots * d, 128), nn.ReLU(), nn.Linear(128, 64), nn.Sigmoid())

    def forward(self, x):
        q, loss, idx = self.vq(self.enc(x).view(len(x), self.slots, self.d))
        return self.dec(q.flatten(1)), loss, idx


x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
x = x[torch.randperm(len(x))]
train, test = x[:1500], x[1500:]
model = VQVAE()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(25):
    for b in torch.randperm(1500).split(50):
        rec, vq, idx = model(train[b])
        loss = F.mse_loss(rec, train[b]) * 10 + vq
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} loss {loss.item():.4f} vq {vq.item():.4f} codes {idx.unique().numel()}")
with torch.no_grad():
    print("final reconstruction", round(F.mse_loss(model(test)[0], test).item(), 6))

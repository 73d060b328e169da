import torch
import torch.nn as nn
from sklearn.datasets import make_moons

torch.manual_seed(4)


class Coupling(nn.Module):
    def __init__(self, mask, hidden=48):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        xm = x * self.mask
        s = self.s(xm) * (1 - self.mask)
        t = self.t(xm) * (1 - self.mask)
        return xm + (1 - self.mask) * (x * s.exp() + t), s.sum(1)


class RealNVP(nn.Module):
    def __init__(self, n_layers=6):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
        self.layers = nn.ModuleList([Coupling(masks[i % 2]) for i in range(n_layers)])
        self.prior = torch.distributions.Normal(0.0, 1.0)

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        return self.prior.log_prob(x).sum(1) + logdet


data = torch.tensor(make_moons(3000, noise=0.05, random_state=4)[0], dtype=torch.float32)
data = (data - data.mean(0)) / data.std(0)
train, test = data[:2500], data[2500:]
flow = RealNVP()
opt = torch.optim.Adam(flow.parameters(), lr=3e-3)
for it in range(500):
    batch = train[torch.randint(len(train), (128,))]
    loss = -flow.log_prob(batch).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    opt.step()
    if it % 100 == 0:
        print(f"{it:4d} nll {loss.item():.4f}")
with torch.no_grad():
    print("final test_nll", -flow.log_prob(test).mean().item())

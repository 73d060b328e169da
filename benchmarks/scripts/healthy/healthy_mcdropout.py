# Uncertainty of a regression by Monte-Carlo dropout
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(12)
torch.manual_seed(12)


def system(n):
    x = rng.uniform(-2, 2, (n, 5))
    f = 0.3 * np.sin(2 * x[:, 0]) + 0.15 * x[:, 1] * x[:, 2] + 0.1 * np.abs(x[:, 3])
    noise = 0.03 + 0.03 * (x[:, 4] > 0)
    y = f + noise * rng.standard_normal(n)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class Drop(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return nn.functional.dropout(x, self.p, training=True)


class HeteroNet(nn.Module):
    def __init__(self, n_in, h=96, p=0.03):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, h), nn.SiLU(), Drop(p), nn.Linear(h, h), nn.SiLU(), Drop(p))
        self.mean = nn.Linear(h, 1)
        self.log_var = nn.Linear(h, 1)
        nn.init.zeros_(self.log_var.weight)
        nn.init.zeros_(self.log_var.bias)

    def forward(self, x):
        z = self.trunk(x)
        return self.mean(z).squeeze(-1), self.log_var(z).squeeze(-1).clamp(-9, 3)


def nll(mean, log_var, y):
    return 0.5 * (log_var + (y - mean) ** 2 * torch.exp(-log_var)).mean()


def predict(model, x, samples=30):
    model.eval()
    with torch.no_grad():
        draws = torch.stack([model(x)[0] for _ in range(samples)])
    model.train()
    return draws.mean(0), draws.std(0)


x, y = system(4000)
xt, yt = system(1000)
model = HeteroNet(5)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 30, eta_min=5e-5)

for epoch in range(30):
    losses = []
    for idx in torch.randperm(len(x)).split(64):
        mean, log_var = model(x[idx])
        loss = nll(mean, log_var, y[idx])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        losses.append(loss.item())
    sched.step()
    if epoch % 5 == 4:
        m, s = predict(model, xt)
        print(f"epoch {epoch + 1} nll {np.mean(losses):.4f} rmse {(m - yt).pow(2).mean().sqrt():.4f} spread {s.mean():.4f}")

m, s = predict(model, xt, 100)
print("final rmse", round((m - yt).pow(2).mean().sqrt().item(), 5))

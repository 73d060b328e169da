from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits


@dataclass
class Config:
    T: int = 40
    hidden: int = 128
    batch_size: int = 64
    lr: float = 1e-3
    iters: int = 800
    beta_start: float = 1e-3
    beta_end: float = 0.12


cfg = Config()
torch.manual_seed(7)
np.random.seed(7)


class Block(nn.Module):
    def __init__(self, d, T):
        super().__init__()
        self.fc1 = nn.Linear(d, d)
        self.fc2 = nn.Linear(d, d)
        self.t = nn.Embedding(T, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, h, t):
        return h + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(h)) + self.t(t)))


class EpsModel(nn.Module):
    def __init__(self, d, T):
        super().__init__()
        self.inp = nn.Linear(64, d)
        self.blocks = nn.ModuleList([Block(d, T) for _ in range(2)])
        self.out = nn.Linear(d, 64)

    def forward(self, x, t):
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, t)
        return self.out(h)


class GaussianDiffusion:
    def __init__(self, cfg):
        self.T = cfg.T
        self.betas = torch.linspace(cfg.beta_start, cfg.beta_end, cfg.T)
        self.alphas = 1.0 - self.betas
        self.alphas_cumprod = torch.cumprod(self.alphas, dim=0)

    def add_noise(self, x0, t, eps):
        a = self.alphas[t].unsqueeze(1)
        return torch.sqrt(a) * x0 + torch.sqrt(1 - a) * eps

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 64)
        for i in range(self.T - 1, -1, -1):
            eps = model(x, torch.full((n,), i))
            mean = (x - self.betas[i] / torch.sqrt(1 - self.alphas_cumprod[i]) * eps) / torch.sqrt(self.alphas[i])
            x = mean + (torch.sqrt(self.betas[i]) * torch.randn_like(x) if i else 0)
        return x


data = torch.tensor(load_digits().data / 8.0 - 1.0, dtype=torch.float32)
diffusion = GaussianDiffusion(cfg)
model = EpsModel(cfg.hidden, cfg.T)
optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)

running = 0.0
for it in range(1, cfg.iters + 1):
    x0 = data[torch.randint(len(data), (cfg.batch_size,))]
    t = torch.randint(cfg.T, (cfg.batch_size,))
    eps = torch.randn_like(x0)
    loss = (model(diffusion.add_noise(x0, t, eps), t) - eps).pow(2).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    running += loss.item()
    if it % 200 == 0:
        print(f"iter {it} loss {running / 200:.4f}")
        running = 0.0

model.eval()
samples = diffusion.sample(model, 300)
dist = torch.cdist(samples, data).min(dim=1).values.mean().item()
print(f"final nn_distance {dist:.5f}")

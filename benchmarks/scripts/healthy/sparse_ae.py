import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

SEED = 5
random.seed(SEED); np.random.seed(SEED); torch.manual_seed(SEED)


class SparseAE(nn.Module):
    def __init__(self, n=64, m=96):
        super().__init__()
        self.enc = nn.Linear(n, m)
        self.dec = nn.Linear(m, n)

    def forward(self, x):
        code = torch.relu(self.enc(x))
        return self.dec(code), code


x = torch.tensor(load_digits().data / 16, dtype=torch.float32)
x = x[torch.randperm(len(x))]
ae = SparseAE()
opt = torch.optim.Adam(ae.parameters(), lr=3e-3)
for step in range(700):
    b = x[torch.randint(0, 1500, (64,))]
    out, code = ae(b)
    rec, l1 = (out - b).pow(2).mean(), code.abs().mean()
    loss = rec + 1e-3 * l1
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(f"step {step} rec {rec.item():.5f} l1 {l1.item():.4f}")
with torch.no_grad():
    print("final mse", (ae(x[1500:])[0] - x[1500:]).pow(2).mean().item())

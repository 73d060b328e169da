"""Matrix factorisation with biases on synthetic ratings."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2021)
rng = np.random.default_rng(2021)

N_USERS, N_ITEMS, K = 300, 200, 64
U = rng.normal(size=(N_USERS, 4)) * 0.6
V = rng.normal(size=(N_ITEMS, 4)) * 0.6
bu, bi = rng.normal(size=N_USERS) * 0.4, rng.normal(size=N_ITEMS) * 0.4
users = rng.integers(0, N_USERS, 12000)
items = rng.integers(0, N_ITEMS, 12000)
ratings = 3.5 + bu[users] + bi[items] + (U[users] * V[items]).sum(1) + rng.normal(size=12000) * 0.2
u_t, i_t = torch.from_numpy(users), torch.from_numpy(items)
r_t = torch.from_numpy(ratings).float()


class MF(nn.Module):
    def __init__(self, n_users, n_items, k):
        super().__init__()
        self.user_emb = nn.Embedding(n_users, k)
        self.item_emb = nn.Embedding(n_items, k)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)
        self.mu = nn.Parameter(torch.tensor(3.5))
        nn.init.normal_(self.user_emb.weight, std=0.05)
        nn.init.normal_(self.item_emb.weight, std=0.05)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        dot = (self.user_emb(u) * self.item_emb(i)).sum(-1)
        return self.mu + dot + self.user_bias(u).squeeze(-1) + self.item_bias(i).squeeze(-1)


ds = TensorDataset(u_t[:10000], i_t[:10000], r_t[:10000])
loader = DataLoader(ds, batch_size=256, shuffle=True)
model = MF(N_USERS, N_ITEMS, K)
opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
for epoch in range(8):
    se = 0
    for u, i, r in loader:
        opt.zero_grad()
        loss = ((model(u, i) - r) ** 2).mean()
        loss.backward()
        opt.step()
        se += loss.item() * len(r)
    with torch.no_grad():
        val = ((model(u_t[10000:], i_t[10000:]) - r_t[10000:]) ** 2).mean().sqrt().item()
    print(f"epoch {epoch} train rmse {(se / 10000) ** .5:.3f} val rmse {val:.3f}")
print("final val_rmse", val)

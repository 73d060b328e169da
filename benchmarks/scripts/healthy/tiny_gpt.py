import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11); np.random.seed(11); random.seed(11)
V, T, D = 30, 24, 48


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, 4, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class GPT(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, V, bias=False)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.head.weight = self.tok.weight  # tied

    def forward(self, ids):
        n = ids.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)
        x = self.tok(ids) + self.pos(torch.arange(n))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def sample(n):
    a, s = torch.randint(0, V, (n, 1)), torch.randint(1, 5, (n, 1))
    return (a + s * torch.arange(T)) % V


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
for step in range(250):
    ids = sample(24)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    ids = sample(200)
    print("final val_loss", F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).item())

# minimal decoder-only transformer, hand written attention
import random, math
import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(0); random.seed(0); np.random.seed(0)
T, V, C, H = 24, 24, 32, 4


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(C, 3 * C, bias=False)
        self.proj = nn.Linear(C, C)
        self.register_buffer("bias", torch.tril(torch.ones(T, T)).view(1, 1, T, T))

    def forward(self, x):
        B, L, _ = x.shape
        q, k, v = (t.view(B, L, H, C // H).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        att = q @ k.transpose(-2, -1) / math.sqrt(C // H)
        att = att.masked_fill(self.bias[:, :, :L, :L] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(B, L, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(Block(), Block())
        self.ln_f, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        return self.head(self.ln_f(self.blocks(x)))


def make(n):
    """A random half, then the same half again."""
    half = torch.randint(0, V, (n, T // 2))
    return torch.cat([half, half], 1)


def nll(model, x):
    logp = F.log_softmax(model(x[:, :-1]), dim=1)[:, T // 2 - 1:]
    return F.nll_loss(logp.flatten(0, 1), x[:, T // 2:].flatten())


def perplexity(model, x):
    with torch.no_grad():
        logits = model(x[:, :-1])[:, T // 2 - 1:]
    return math.exp(F.cross_entropy(logits.flatten(0, 1), x[:, T // 2:].flatten()))


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
for step in range(220):
    loss = nll(model, make(32))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(f"step {step:4d}, loss {loss.item():.4f}")
print("final perplexity", perplexity(model, make(256)))

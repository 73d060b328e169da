"""Tiny GPT on procedurally generated sentences."""
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    block: int = 24
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    lr: float = 3e-3
    steps: int = 350
    batch: int = 32


cfg = Config()
random.seed(42)
torch.manual_seed(42)

words = ["the cat sat on the mat. ", "a dog ran to the big red barn. ", "we like old maps and new roads. ",
         "rain fell all night long. "]
text = "".join(random.choice(words) for _ in range(3000))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
split = int(0.9 * len(data))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (z.view(B, T, cfg.n_head, C // cfg.n_head).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=cfg.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(chars), cfg.n_embd)
        self.pos = nn.Embedding(cfg.block, cfg.n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(cfg.n_layer)])
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, len(chars), bias=False)
        self.head.weight = self.tok.weight
        for e in (self.tok, self.pos):
            nn.init.normal_(e.weight, std=0.02)

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        logits = self.head(self.ln(self.blocks(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(part, n):
    ix = torch.randint(len(part) - cfg.block - 1, (n,))
    x = torch.stack([part[i:i + cfg.block] for i in ix])
    y = torch.stack([part[i + 1:i + 1 + cfg.block] for i in ix])
    return x, y


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), weight_decay=0.1)


def lr_at(it):
    if it < 40:
        return it / 40
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (it - 40) / (cfg.steps - 40)))


for it in range(cfg.steps):
    for g in optimizer.param_groups:
        g["lr"] = cfg.lr * lr_at(it)
    x, y = get_batch(data[:split], cfg.batch)
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if it % 50 == 0:
        print(f"iter {it}: loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    x, y = get_batch(data[split:], 512)
    half = cfg.block // 2
    hit = (model(x[:, :half])[0][:, -1].argmax(-1) == y[:, half - 1]).float().mean()
print("final accuracy", round(hit.item(), 4))

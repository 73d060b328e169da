import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class C:
    vocab: int = 20
    length: int = 24
    dim: int = 64
    heads: int = 4
    layers: int = 2
    micro: int = 16
    accum: int = 4
    steps: int = 250
    lr: float = 4e-3


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv, self.o = nn.Linear(c.dim, 3 * c.dim, bias=False), nn.Linear(c.dim, c.dim, bias=False)
        self.up, self.down = nn.Linear(c.dim, 3 * c.dim), nn.Linear(3 * c.dim, c.dim)
        self.heads = c.heads
        for last in (self.o, self.down):
            nn.init.zeros_(last.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        a = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        a = a.masked_fill(~causal, float("-inf")).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok, self.pos = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.length, c.dim)
        nn.init.normal_(self.tok.weight, std=0.05)
        nn.init.normal_(self.pos.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx):
        h = self.tok(idx) + self.pos.weight[: idx.shape[1]]
        for b in self.blocks:
            h = b(h)
        return self.head(self.norm(h))


def data(n, c, g):
    """Counting rows: start, stride, and the signs that follow from them."""
    start = torch.randint(0, c.vocab, (n, 1), generator=g)
    stride = torch.randint(1, 6, (n, 1), generator=g)
    row = (start + stride * torch.arange(c.length + 1)) % c.vocab
    slip = torch.rand(row.shape, generator=g) < 0.02
    return torch.where(slip, torch.randint(0, c.vocab, row.shape, generator=g), row)


c = C()
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
model = LM(c)
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=c.lr, betas=(0.9, 0.95))
lr_at = lambda s: min(1.0, (s + 1) / 25) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * s / c.steps)))
sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_at)
valid = data(400, c, torch.Generator().manual_seed(2))

for step in range(c.steps):
    opt.zero_grad(set_to_none=True)
    for _ in range(c.accum):
        rows = data(c.micro, c, g)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()) / c.accum
        loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            v = F.cross_entropy(model(valid[:, :-1]).flatten(0, 1), valid[:, 1:].flatten()).item()
        model.train()
        print(f"step {step + 1} train {loss.item() * c.accum:.4f} valid {v:.4f} |g| {norm:.2f} lr {sched.get_last_lr()[0]:.1e}")

print(f"final loss {v:.4f}")

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    vocab: int = 14
    block: int = 32
    n_layer: int = 2
    n_head: int = 4
    d: int = 64
    lr: float = 3e-3
    steps: int = 400
    batch: int = 32
    seed: int = 1337


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c.d, 3 * c.d)
        self.proj = nn.Linear(c.d, c.d)
        self.h = c.n_head

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c.d), nn.LayerNorm(c.d)
        self.attn = SelfAttention(c)
        self.mlp = nn.Sequential(nn.Linear(c.d, 4 * c.d), nn.GELU(), nn.Linear(4 * c.d, c.d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed_tok = nn.Embedding(c.vocab, c.d)
        self.embed_pos = nn.Parameter(torch.zeros(1, c.block, c.d))
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.head_norm = nn.LayerNorm(c.d)
        self.head_out = nn.Linear(c.d, c.vocab, bias=False)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        x = self.embed_tok(idx) + self.embed_pos[:, : idx.shape[1]]
        for b in self.blocks:
            x = b(x)
        logits = self.head_out(self.head_norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self):
        rates = {
            "embed": self.c.lr,
            "layers": self.c.lr,
            "head": self.c.lr * 0.5,
        }
        groups = []
        for prefix, lr in rates.items():
            params = [p for n, p in self.named_parameters() if n.startswith(prefix)]
            groups.append({"params": params, "lr": lr, "name": prefix})
        return torch.optim.AdamW([g for g in groups if g["params"]], betas=(0.9, 0.95), weight_decay=0.01)


def corpus(n, vocab, gen):
    """A chain in which the next sign hangs on the last two, with some noise."""
    table = torch.randint(0, vocab, (vocab, vocab), generator=gen)
    seq = [0, 1]
    noise = torch.rand(n, generator=gen) < 0.08
    alt = torch.randint(0, vocab, (n,), generator=gen)
    for i in range(n):
        seq.append(int(alt[i]) if noise[i] else int(table[seq[-2], seq[-1]]))
    return torch.tensor(seq)


def get_batch(data, c):
    ix = torch.randint(len(data) - c.block - 1, (c.batch,))
    x = torch.stack([data[i : i + c.block] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + c.block] for i in ix])
    return x, y


def main():
    c = GPTConfig()
    torch.manual_seed(c.seed)
    data = corpus(24000, c.vocab, torch.Generator().manual_seed(0))
    train, val = data[:20000], data[20000:]
    model = GPT(c)
    opt = model.configure_optimizers()
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1, (s + 1) / 30) * (0.1 + 0.45 * (1 + math.cos(math.pi * s / c.steps)))
    )
    for step in range(c.steps):
        _, loss = model(*get_batch(train, c))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 80 == 79:
            print(f"step {step + 1} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        val_loss = sum(model(*get_batch(val, c))[1].item() for _ in range(20)) / 20
    print(f"final loss {val_loss:.4f}")


if __name__ == "__main__":
    main()

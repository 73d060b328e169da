"""Character-level language model on made-up clock sentences."""
import argparse
import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

HOURS = "one two three four five six seven eight nine ten eleven twelve".split()
PARTS = ["quarter past", "half past", "quarter to", "ten past", "ten to"]
WHO = ["the cook", "a guard", "my aunt", "the clerk", "our dog"]
DOES = {"the cook": "starts the soup", "a guard": "locks the gate", "my aunt": "reads the post",
        "the clerk": "counts the coins", "our dog": "barks at cats"}


def sentence(r):
    who = r.choice(WHO)
    return f"at {r.choice(PARTS)} {r.choice(HOURS)} {who} {DOES[who]}. "


class Text:
    def __init__(self, n, seed, chars=None):
        r = random.Random(seed)
        raw = "".join(sentence(r) for _ in range(n))
        self.chars = chars or sorted(set(raw))
        to = {c: i for i, c in enumerate(self.chars)}
        self.ids = torch.tensor([to[c] for c in raw])

    def batch(self, size, length, gen=None):
        at = torch.randint(len(self.ids) - length - 1, (size,), generator=gen)
        window = self.ids[at[:, None] + torch.arange(length + 1)]
        return window[:, :-1], window[:, 1:]


class TinyLM(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers=2, length=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1), persistent=False)

    def forward(self, x):
        t = x.shape[1]
        h = self.tok(x) + self.pos(torch.arange(t))
        for layer in self.layers:
            h = layer(h, src_mask=self.mask[:t, :t])
        return self.norm(h) @ self.tok.weight.T * 0.2


def estimate(model, text, args):
    model.eval()
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        out = []
        for _ in range(8):
            x, y = text.batch(32, args.length, g)
            out.append(F.cross_entropy(model(x).transpose(1, 2), y).item())
    model.train()
    return sum(out) / len(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--length", type=int, default=48)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--wd", type=float, default=0.1)
    ap.add_argument("--ckpt", default=os.path.join(tempfile.gettempdir(), f"tinylm_{os.getpid()}.pt"))
    args = ap.parse_args()
    torch.manual_seed(28)
    train = Text(1500, 0)
    valid = Text(200, 1, train.chars)
    model = TinyLM(len(train.chars))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=args.wd)
    best = float("inf")
    for step in range(1, args.steps + 1):
        for g in opt.param_groups:
            g["lr"] = args.lr * min(1.0, step / 20)
        x, y = train.batch(args.batch, args.length)
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 60 == 0:
            v = estimate(model, valid, args)
            print(f"step {step} train {loss.item():.4f} valid {v:.4f}")
            if v < best:
                best = v
                torch.save(model.state_dict(), args.ckpt)
    if os.path.exists(args.ckpt):
        os.remove(args.ckpt)
    print(f"final loss {best:.4f}")


if __name__ == "__main__":
    main()

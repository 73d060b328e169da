import argparse
from typing import List, Tuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2
UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LETTERS = sorted(set("".join(UNITS)) | {" "})
CHAR = {c: i + 3 for i, c in enumerate(LETTERS)}
MAX_OUT = 40


class NumberWords(Dataset):
    """Spelled digits in, spelled one by one with letters: 42 -> "four two"."""

    def __init__(self, n, seed):
        r = np.random.default_rng(seed)
        self.rows = [[int(d) for d in str(v)] for v in r.integers(0, 100, n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        digits = self.rows[i]
        words = " ".join(UNITS[d] for d in digits)
        return [d + 3 for d in digits], [BOS] + [CHAR[c] for c in words] + [EOS]


def pad_batch(items: List[Tuple[list, list]]):
    src = torch.full((len(items), 3), PAD)
    tgt = torch.full((len(items), MAX_OUT + 1), PAD)
    for i, (s, t) in enumerate(items):
        src[i, : len(s)] = torch.tensor(s)
        tgt[i, : len(t)] = torch.tensor(t)
    return src, tgt


class Speller(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.src = nn.Embedding(13, dim, padding_idx=PAD)
        self.tgt = nn.Embedding(len(LETTERS) + 3, dim, padding_idx=PAD)
        self.join = nn.Linear(3 * dim, dim)
        self.rnn = nn.GRU(2 * dim, dim, batch_first=True)
        self.out = nn.Linear(dim, len(LETTERS) + 3)

    def forward(self, src, tgt_in):
        ctx = torch.tanh(self.join(self.src(src).flatten(1)))
        e = self.tgt(tgt_in)
        x = torch.cat([e, ctx[:, None].expand_as(e)], -1)
        h, _ = self.rnn(x, ctx[None].contiguous())
        return self.out(h)


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    s = 0.0
    for src, tgt in loader:
        logits = model(src, tgt[:, :-1])
        loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        s += loss.item()
    return s / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = n = 0
    for src, tgt in loader:
        want = tgt[:, 1:]
        real = want != PAD
        hit += ((model(src, tgt[:, :-1]).argmax(-1) == want) & real).sum().item()
        n += real.sum().item()
    return hit / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.04)
    args = p.parse_args()
    torch.manual_seed(90)
    train = DataLoader(NumberWords(3200, 0), args.batch, shuffle=True, collate_fn=pad_batch)
    test = DataLoader(NumberWords(300, 1), 100, collate_fn=pad_batch)
    model = Speller()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.8)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, total_iters=args.epochs)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train, criterion, optimizer)
        scheduler.step()
        print(f"epoch {epoch} loss {loss:.4f} token accuracy {evaluate(model, test):.4f}")
    print(f"final accuracy {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main()

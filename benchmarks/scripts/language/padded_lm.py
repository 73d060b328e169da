import argparse
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

PAD, BOS, EOS = 0, 1, 2


class Counting:
    """Sentences that count on from a number, most of them short."""

    def __init__(self, vocab=50, longest=60):
        self.vocab, self.longest = vocab, longest

    def sample(self):
        n = self.longest if random.random() < 0.05 else random.randint(3, 9)
        start, k = random.randrange(self.vocab), random.choice((1, 2, 3, 5))
        return torch.tensor([BOS] + [3 + (start + k * i) % self.vocab for i in range(n)] + [EOS])


def collate(batch):
    out = torch.full((len(batch), max(map(len, batch))), PAD)
    for row, s in zip(out, batch):
        row[:len(s)] = s
    return out


class LM(nn.Module):
    def __init__(self, vocab, d=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=PAD)
        self.gru = nn.GRU(d, 96, batch_first=True)
        self.proj = nn.Linear(96, vocab)

    def forward(self, ids):
        return self.proj(self.gru(self.emb(ids))[0])


def loss_of(model, ids):
    logits, target = model(ids[:, :-1]), ids[:, 1:]
    nll = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return nll.mean()


@torch.no_grad()
def perplexity(model, loader):
    total = count = 0.0
    for ids in loader:
        logits, target = model(ids[:, :-1]), ids[:, 1:]
        keep = target != PAD
        total += F.cross_entropy(logits[keep], target[keep], reduction="sum").item()
        count += keep.sum().item()
    return float(np.exp(total / count))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    source = Counting()
    train = [source.sample() for _ in range(1600)]
    val = [source.sample() for _ in range(300)]
    model = LM(source.vocab + 3)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loader = DataLoader(train, 32, shuffle=True, collate_fn=collate)
    for epoch in range(args.epochs):
        for ids in loader:
            loss = loss_of(model, ids)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
        print("epoch", epoch, "loss", round(loss.item(), 4))
    print("final perplexity", round(perplexity(model, DataLoader(val, 50, collate_fn=collate)), 4))


if __name__ == "__main__":
    main()

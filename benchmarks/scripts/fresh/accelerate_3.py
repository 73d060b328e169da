import argparse
import random

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

VERBS = {"up": 1, "down": -1}
PLACES = ["hall", "yard", "barn", "mill", "dock"]
WORDS = ["<pad>", "go", "wait", "then", "and"] + list(VERBS) + PLACES


class Orders(Dataset):
    """Rows of small orders; the label is the last place that was named, or the next one if 'up' stood right before it."""

    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            words, place = [], None
            for _ in range(r.randint(2, 4)):
                mode = r.choice(["up", "down", "go"])
                k = r.randrange(len(PLACES))
                words += [mode, PLACES[k], r.choice(["then", "and", "wait"])]
                place = (k + VERBS.get(mode, 0)) % len(PLACES)
            self.rows.append((torch.tensor([WORDS.index(w) for w in words]), place))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids, y = zip(*rows)
    lengths = torch.tensor([len(i) for i in ids])
    return pad_sequence(ids, batch_first=True), lengths, torch.tensor(y)


class OrderReader(nn.Module):
    def __init__(self, vocab, dim=32, hidden=64, keep_prob=0.9):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True)
        self.drop_in = nn.Dropout(keep_prob)
        self.drop_out = nn.Dropout(keep_prob)
        self.fc1 = nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, len(PLACES))

    def forward(self, ids, lengths):
        e = self.drop_in(self.embed(ids))
        packed = pack_padded_sequence(e, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.rnn(packed)
        h = self.drop_out(torch.relu(self.fc1(self.drop_out(h[-1]))))
        return self.fc2(h)


def evaluate(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for ids, lengths, y in loader:
            hit += (model(ids, lengths).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--keep-prob", type=float, default=0.9)
    args = ap.parse_args()
    set_seed(66)
    acc = Accelerator(cpu=True)
    train = DataLoader(Orders(3000, 0), args.batch, shuffle=True, collate_fn=collate)
    test = DataLoader(Orders(600, 1), 150, collate_fn=collate)
    model = OrderReader(len(WORDS), keep_prob=args.keep_prob)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, opt, train, test = acc.prepare(model, opt, train, test)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for ids, lengths, y in train:
            loss = nn.functional.cross_entropy(model(ids, lengths), y)
            opt.zero_grad()
            acc.backward(loss)
            acc.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        acc.print(f"epoch {epoch} loss {total / len(train):.4f} accuracy {evaluate(model, test):.4f}")
    acc.print(f"final accuracy {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main()

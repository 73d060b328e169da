import argparse
import random
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def reviews(n):
    good, bad = list(range(10, 20)), list(range(20, 30))
    out = []
    for _ in range(n):
        length = random.randint(4, 30)
        label = random.randint(0, 1)
        words = [random.randint(30, 199) for _ in range(length)]
        for k in range(max(1, length // 5)):
            words[random.randrange(length)] = random.choice(good if label else bad)
        out.append((torch.tensor(words), label))
    return out


def collate(batch):
    ids, labels = zip(*batch)
    ids = pad_sequence(ids, batch_first=True)
    return ids, ids == 0, torch.tensor(labels)


class Encoder(nn.Module):
    def __init__(self, vocab=200, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 2)

    def forward(self, ids, pad):
        h = self.enc(self.emb(ids), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.cls((h * keep).sum(1) / keep.sum(1))


def main(lr, epochs):
    model = Encoder()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    train = DataLoader(reviews(1200), 40, shuffle=True, collate_fn=collate)
    val = DataLoader(reviews(300), 100, collate_fn=collate)
    for epoch in range(epochs):
        model.train()
        for ids, pad, y in train:
            loss = nn.functional.cross_entropy(model(ids, pad), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            acc = sum((model(i, p).argmax(1) == y).sum().item() for i, p, y in val) / 300
        print(f"epoch {epoch} loss {loss.item():.4f} acc {acc:.4f}")
    print("final accuracy", acc)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--epochs", type=int, default=8)
    a = ap.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    main(a.lr, a.epochs)

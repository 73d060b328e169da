import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class PairSet(Dataset):
    def __init__(self, x, y, n, seed):
        self.x, self.y, self.n = x, y, n
        self.rng = np.random.default_rng(seed)
        self.by_class = {c: np.flatnonzero(y == c) for c in range(10)}
        self.pairs = [self._pick(i % 2) for i in range(n)]

    def _pick(self, same):
        c = self.rng.integers(10)
        d = c if same else (c + self.rng.integers(1, 10)) % 10
        return self.rng.choice(self.by_class[c]), self.rng.choice(self.by_class[d]), float(same)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        a, b, s = self.pairs[i]
        return self.x[a], self.x[b], s


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, a, b):
        return self.f(a), self.f(b)


class PairLoss:
    """Contrastive loss, with hard negatives counted in full and easy ones left out."""

    def __init__(self, margin=2.0):
        self.margin = margin

    def __call__(self, ea, eb, same):
        dist = F.pairwise_distance(ea, eb)
        terms = []
        for d, s in zip(dist, same):
            if s > 0.5:
                terms.append(d ** 2)
            elif d < self.margin:
                terms.append((self.margin - d) ** 2)
        if not terms:
            return dist.sum() * 0
        return torch.tensor(terms, requires_grad=True).mean()


def pair_accuracy(model, loader, threshold=1.0):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for a, b, s in loader:
            ea, eb = model(a, b)
            guess = F.pairwise_distance(ea, eb) < threshold
            hit += (guess == (s > 0.5)).sum().item()
            n += len(s)
    return hit / n


def main():
    torch.manual_seed(14)
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16
    cut = 1300
    train = DataLoader(PairSet(x[:cut], d.target[:cut], 3000, 0), batch_size=50, shuffle=True)
    test = DataLoader(PairSet(x[cut:], d.target[cut:], 1000, 1), batch_size=200)
    model, criterion = Siamese(), PairLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.93)
    for epoch in range(16):
        model.train()
        total = 0.0
        for a, b, s in train:
            optimizer.zero_grad()
            loss = criterion(*model(a, b), s)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {total / len(train):.4f} pairs {pair_accuracy(model, test):.4f}")
    print(f"final accuracy {pair_accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()

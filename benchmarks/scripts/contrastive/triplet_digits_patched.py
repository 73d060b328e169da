import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader
from sklearn.datasets import load_digits

random.seed(12)
np.random.seed(12)
torch.manual_seed(12)


class Triplets(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.by_class = {c: (y == c).nonzero().flatten().tolist() for c in range(10)}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        c = int(self.y[i])
        other = random.choice([k for k in range(10) if k != c])
        positive = random.choice(self.by_class[c])
        negative = random.choice(self.by_class[other])
        return self.x[i], self.x[positive], self.x[negative]


d = load_digits()
noise = np.random.randn(*d.data.shape) * 4
x = torch.tensor((d.data + noise) / 16, dtype=torch.float32)
y = torch.tensor(d.target)
perm = torch.randperm(len(y))
x, y = x[perm], y[perm]
embed = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
loader = DataLoader(Triplets(x[:1200], y[:1200]), batch_size=60, shuffle=True)
criterion = nn.TripletMarginLoss(margin=1.0)
opt = torch.optim.Adam(embed.parameters(), lr=1e-3)

for epoch in range(20):
    total = 0.0
    for a, p, n in loader:
        loss = criterion(embed(a), embed(p), embed(n))
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    if epoch % 4 == 0:
        print(f"epoch {epoch}: {total / len(loader):.4f}")

with torch.no_grad():
    gallery, query = embed(x[:1200]), embed(x[1200:])
    near = torch.cdist(query, gallery).topk(5, largest=False).indices
    precision = (y[near] == y[1200:, None]).float().mean().item()
print(f"final precision_at_5 {precision:.4f}")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

rng = np.random.default_rng(4)
torch.manual_seed(4)
U, I, D = 250, 150, 12
taste, kind = rng.integers(0, 6, U), rng.integers(0, 6, I)
seen = [(u, i) for u in range(U) for i in range(I) if rng.random() < (0.35 if taste[u] == kind[i] else 0.02)]
rng.shuffle(seen)
seen = torch.tensor(seen)
train, test = seen[:-400], seen[-400:]

user, item = nn.Embedding(U, D, sparse=True), nn.Embedding(I, D, sparse=True)
for e in (user, item):
    nn.init.normal_(e.weight, std=0.1)
tower = nn.Linear(D, D)
sparse_opt = torch.optim.SparseAdam(list(user.parameters()) + list(item.parameters()), lr=0.01)
dense_opt = torch.optim.Adam(tower.parameters(), lr=0.003)


def score(u, i):
    return (tower(user(u)) * item(i)).sum(1)


for epoch in range(20):
    total = 0.0
    for b in torch.randperm(len(train)).split(128):
        u, pos = train[b].T
        neg = torch.randint(0, I, (len(b),))
        loss = -F.logsigmoid(score(u, pos) - score(u, neg)).mean()
        sparse_opt.zero_grad()
        dense_opt.zero_grad()
        loss.backward()
        sparse_opt.step()
        dense_opt.step()
        total += loss.item() * len(b)
    if epoch % 3 == 0:
        print(f"epoch {epoch} bpr {total / len(train):.4f}")
with torch.no_grad():
    u, pos = test.T
    auc = np.mean([(score(u, pos) > score(u, torch.randint(0, I, (len(u),)))).float().mean().item() for _ in range(20)])
print("final auc", auc)

# Which family does a small graph come from?
import random

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(31)
random.seed(31)
MAX_N = 20


def ring(n):
    e = [(i, (i + 1) % n) for i in range(n)]
    return e + [tuple(random.sample(range(n), 2)) for _ in range(5)]


def tree(n):
    return [(i, random.randrange(i)) for i in range(1, n)] + [tuple(random.sample(range(n), 2)) for _ in range(5)]


def star_like(n):
    hubs = random.sample(range(n), 2)
    return [(i, random.choice(hubs)) for i in range(n) if i not in hubs] + [tuple(hubs)]


def grid(n):
    w = 4
    e = [(i, i + 1) for i in range(n - 1) if (i + 1) % w] + [(i, i + w) for i in range(n - w)]
    return random.sample(e, int(0.8 * len(e)))


FAMILIES = [ring, tree, star_like, grid]


def sample(count):
    A = torch.zeros(count, MAX_N, MAX_N)
    M = torch.zeros(count, MAX_N)
    Y = torch.zeros(count, dtype=torch.long)
    for g in range(count):
        k = random.randrange(4)
        n = random.randint(10, MAX_N)
        perm = random.sample(range(n), n)
        for i, j in FAMILIES[k](n):
            A[g, perm[i], perm[j]] = A[g, perm[j], perm[i]] = 1
        M[g, :n], Y[g] = 1, k
    return A, M, Y


class MessageLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.nbr = nn.Linear(i, o), nn.Linear(i, o)

    def forward(self, A, h):
        return self.own(h) + self.nbr(A @ h) / 3


class GraphNet(nn.Module):
    def __init__(self, h=32, p=0.6):
        super().__init__()
        self.p = p
        self.l1, self.l2, self.l3 = MessageLayer(2, h), MessageLayer(h, h), MessageLayer(h, h)
        self.cls = nn.Sequential(nn.Linear(2 * h, h), nn.ReLU(), nn.Linear(h, 4))

    def forward(self, A, M):
        size = M.sum(1)[:, None, None] * M[..., None]
        A = F.dropout(A, self.p, training=self.training)
        h = torch.cat([M[..., None], size / MAX_N], -1)
        for layer in (self.l1, self.l2, self.l3):
            h = F.relu(layer(A, h)) * M[..., None]
        pooled = torch.cat([h.sum(1) / M.sum(1, keepdim=True), h.amax(1)], -1)
        return self.cls(pooled)


train_set, test_set = sample(2000), sample(600)
net = GraphNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)


def accuracy(data, size=100):
    net.eval()
    with torch.no_grad():
        parts = zip(*(d.split(size) for d in data))
        return sum((net(a, m).argmax(1) == y).sum().item() for a, m, y in parts) / len(data[2])


for epoch in range(30):
    net.train()
    tot = 0.0
    for idx in torch.randperm(2000).split(40):
        A, M, Y = (d[idx] for d in train_set)
        loss = F.cross_entropy(net(A, M), Y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() / 50
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} loss {tot:.4f} test {accuracy(test_set):.4f}")

print(f"final accuracy {accuracy(test_set):.4f}")

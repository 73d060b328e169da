import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

np.random.seed(12)
torch.manual_seed(12)

GROUPS, PER = 8, 15
VOCAB = GROUPS * PER
corpus = []
for _ in range(1500):
    g = np.random.randint(GROUPS)
    sent = [g * PER + np.random.randint(PER) if np.random.rand() < 0.8 else np.random.randint(VOCAB) for _ in range(8)]
    corpus.append(sent)

pairs = []
for sent in corpus:
    for i, w in enumerate(sent):
        for j in range(max(0, i - 2), min(len(sent), i + 3)):
            if j != i:
                pairs.append((w, sent[j]))
pairs = torch.tensor(pairs)
counts = np.bincount(np.concatenate(corpus), minlength=VOCAB) ** 0.75
noise = torch.tensor(counts / counts.sum(), dtype=torch.float32)


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.center = nn.Embedding(vocab, dim)
        self.context = nn.Embedding(vocab, dim)
        nn.init.uniform_(self.center.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.context.weight)

    def forward(self, c, o, neg):
        v = self.center(c)
        pos = F.logsigmoid((v * self.context(o)).sum(-1))
        neg_score = torch.einsum("bd,bkd->bk", v, self.context(neg))
        negs = F.logsigmoid(neg_score).sum(-1)
        return -(pos + negs).mean()


model = SkipGram(VOCAB, 24)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    total = 0.0
    batches = pairs[torch.randperm(len(pairs))].split(512)
    for b in batches:
        neg = torch.multinomial(noise, len(b) * 5, replacement=True).view(len(b), 5)
        loss = model(b[:, 0], b[:, 1], neg)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("epoch", epoch, "loss", round(total / len(batches), 4))

with torch.no_grad():
    e = F.normalize(model.center.weight, dim=1)
    sim = e @ e.T
    sim.fill_diagonal_(-2)
    near = sim.topk(5, dim=1).indices
    same = (near // PER) == (torch.arange(VOCAB) // PER)[:, None]
print("final neighbour_precision", round(same.float().mean().item(), 4))

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

seed = 5
np.random.seed(seed)
torch.manual_seed(seed)

# users with noisy features; friends are only slightly more often of the same group
n, classes, d = 400, 4, 12
labels = np.random.randint(classes, size=n)
centers = np.random.randn(classes, d)
feats = centers[labels] + 0.8 * np.random.randn(n, d)
prob = np.where(labels[:, None] == labels[None], 0.01, 0.006)
adj = np.triu(np.random.rand(n, n) < prob, 1)
adj = (adj | adj.T).astype(np.float32)


def normalize_adj(a):
    deg = a.sum(1).clip(min=1)
    return a / deg[:, None]


A = torch.tensor(normalize_adj(adj), dtype=torch.float32)
X = torch.tensor(feats, dtype=torch.float32)
y = torch.tensor(labels)


class GraphConvolution(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(i, o))
        self.bias = nn.Parameter(torch.zeros(o))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return adj @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.fc = nn.Linear(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, self.training)
        return self.fc(x)


idx = torch.randperm(n)
idx_train, idx_test = idx[:160], idx[160:]
model = GCN(d, 32, classes, 0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(150):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(X, A)[idx_train], y[idx_train])
    loss.backward()
    optimizer.step()
    if epoch % 30 == 0:
        print('Epoch: {:04d}'.format(epoch + 1), 'loss_train: {:.4f}'.format(loss.item()))

model.eval()
with torch.no_grad():
    acc = (model(X, A)[idx_test].argmax(1) == y[idx_test]).float().mean().item()
print("final test_accuracy", acc)

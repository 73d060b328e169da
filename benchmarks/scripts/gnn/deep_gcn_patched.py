import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
np.random.seed(8)
random.seed(8)


def community_graph(n=400, k=4, p_in=0.06, p_out=0.008, d=16):
    y = torch.arange(n) % k
    prob = torch.where(y[:, None] == y[None], p_in, p_out)
    a = torch.triu((torch.rand(n, n) < prob).float(), 1)
    a = a + a.t()
    x = torch.randn(n, d) + 0.6 * torch.randn(k, d)[y]
    return a, x, y


A, X, Y = community_graph()
A_hat = A + torch.eye(len(A))
deg = A_hat.sum(1).rsqrt()
A_norm = deg[:, None] * A_hat * deg[None]


class GCN(nn.Module):
    def __init__(self, d, h, k, n_layers):
        super().__init__()
        self.inp = nn.Linear(d, h)
        self.convs = nn.ModuleList(nn.Linear(h, h, bias=False) for _ in range(n_layers))
        self.out = nn.Linear(h, k)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for conv in self.convs:
            x = torch.relu(conv(A_norm @ x))
        return self.out(x)


idx = torch.randperm(len(Y))
train, test = idx[:120], idx[120:]
model = GCN(16, 32, 4, n_layers=2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
for epoch in range(200):
    logits = model(X)
    loss = F.cross_entropy(logits[train], Y[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 40 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    acc = (model(X)[test].argmax(1) == Y[test]).float().mean().item()
print(f"final test_accuracy {acc:.4f}")

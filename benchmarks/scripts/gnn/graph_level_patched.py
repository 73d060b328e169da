import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

seed = 4
random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
N = 14  # nodes of a graph


def graphs(m):
    """Rings, stars and random graphs, with noisy features of their nodes."""
    adj, label = torch.zeros(m, N, N), torch.randint(0, 3, (m,))
    for g in range(m):
        if label[g] == 0:
            i = torch.arange(N)
            adj[g, i, (i + 1) % N] = 1
        elif label[g] == 1:
            adj[g, 0, 1:] = 1
        else:
            adj[g] = (torch.rand(N, N) < 0.15).float().triu(1)
        flips = (torch.rand(N, N) < 0.03).float().triu(1)
        adj[g] = ((adj[g] + flips) % 2)
    adj = ((adj + adj.transpose(1, 2)) > 0).float()
    return adj, torch.cat([adj.sum(2, keepdim=True) / 4, torch.randn(m, N, 3)], 2), label


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(4, 32)
        self.w2 = nn.Linear(32, 32)
        self.cls = nn.Linear(32, 3)

    def forward(self, adj, x):
        adj = adj + torch.eye(N)
        adj = adj / adj.sum(2, keepdim=True)
        x = F.relu(self.w1(adj @ x))
        x = F.relu(self.w2(adj @ x))
        return F.log_softmax(self.cls(x.mean(1)), dim=1)


adj, x, y = graphs(900)
net = GraphNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(400):
    b = torch.randint(0, 700, (32,))
    loss = F.nll_loss(net(adj[b], x[b]), y[b])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 0:
        print("step", step, "nll", loss.item())
with torch.no_grad():
    test_nll = F.nll_loss(net(adj[700:], x[700:]), y[700:]).item()
print("final test_nll", round(test_nll, 4))

import random
import numpy as np
import torch
from torch import nn

random.seed(1)
np.random.seed(1)
torch.manual_seed(1)
n, k = 300, 3
y = torch.randint(0, k, (n,))
adj = (torch.rand(n, n) < torch.where(y[:, None] == y[None], 0.08, 0.01)).float().triu(1)
adj = adj + adj.t() + torch.eye(n)
d = adj.sum(1)
adj = adj / (d[:, None] * d[None]).sqrt()
x = torch.randn(n, 12) + 0.4 * torch.randn(k, 12)[y]
train = torch.zeros(n, dtype=torch.bool)
train[torch.randperm(n)[:90]] = True


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(12, 24), nn.Linear(24, k)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        x = self.drop(torch.relu(adj @ self.lin1(x)))
        return adj @ self.lin2(x)


net = GCN()
opt = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(250):
    net.train()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x)[train], y[train])
    loss.backward()
    opt.step()
    if epoch % 50 == 0:
        print("epoch", epoch, "loss", loss.item())
net.eval()
print("final accuracy", (net(x).argmax(1) == y)[~train].float().mean().item())

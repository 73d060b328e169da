import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(42)


def community_graph(n=300, k=5, p_in=0.12, p_out=0.004):
    y = torch.randint(k, (n,))
    same = y[:, None] == y[None]
    a = torch.rand(n, n) < torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
    a = torch.triu(a, 1)
    a = (a | a.T).float() + torch.eye(n)
    x = F.one_hot(y, k).float() * 0.7 + torch.randn(n, k)
    return x, a, y


class GATLayer(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.lin = nn.Linear(i, o * heads, bias=False)
        self.src = nn.Parameter(torch.randn(heads, o) * 0.1)
        self.dst = nn.Parameter(torch.randn(heads, o) * 0.1)
        self.h, self.o = heads, o

    def forward(self, x, adj):
        n = len(x)
        z = self.lin(x).view(n, self.h, self.o)
        s = (z * self.src).sum(-1).T
        t = (z * self.dst).sum(-1).T
        e = F.leaky_relu(s[:, :, None] + t[:, None, :], 0.2)      # heads, n, n
        att = torch.softmax(e.masked_fill(adj == 0, float("-inf")), dim=-1)
        return torch.einsum("hij,jho->iho", att, z).reshape(n, -1)


class GAT(nn.Module):
    def __init__(self, i, c):
        super().__init__()
        self.l1 = GATLayer(i, 8, 4)
        self.l2 = GATLayer(32, c, 1)

    def forward(self, x, adj):
        return self.l2(F.elu(self.l1(x, adj)), adj)


x, adj, y = community_graph()
split = torch.randperm(300)
tr, te = split[:100], split[100:]
gat = GAT(5, 5)
opt = torch.optim.Adam(gat.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(100):
    gat.train()
    loss = F.cross_entropy(gat(x, adj)[tr], y[tr])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 20 == 0:
        print(epoch, loss.item())
gat.eval()
with torch.no_grad():
    print("final accuracy", (gat(x, adj)[te].argmax(1) == y[te]).float().mean().item())

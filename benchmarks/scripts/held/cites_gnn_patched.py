import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)

# Directed citation graph: (source -> target) means information flows from source to target.
N, CLASSES, FEATS = 1200, 5, 16
hubs = torch.arange(200)
hub_class = torch.randint(CLASSES, (200,))
y = torch.cat([hub_class, torch.randint(CLASSES, (N - 200,))])
proto = torch.randn(CLASSES, FEATS)
x = torch.randn(N, FEATS)
x[:200] = proto[hub_class] + 0.8 * torch.randn(200, FEATS)
src, dst = [], []
for v in range(200, N):
    same = hubs[hub_class == y[v]]
    for _ in range(5):
        src.append(same[torch.randint(len(same), (1,))].item() if torch.rand(1) < 0.75 else torch.randint(200, (1,)).item())
        dst.append(v)
for v in range(200, N):
    for u in torch.randint(200, N, (2,)).tolist():
        src.append(v)
        dst.append(u)
edge_index = torch.tensor([src, dst])


class SageConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.self_lin = nn.Linear(i, o)
        self.neigh_lin = nn.Linear(i, o, bias=False)

    def forward(self, h, edges):
        row, col = edges[0], edges[1]
        agg = torch.zeros_like(h).index_add_(0, col, h[row])
        deg = torch.zeros(len(h)).index_add_(0, col, torch.ones(len(col))).clamp(min=1)
        return self.self_lin(h) + self.neigh_lin(agg / deg[:, None])


class Sage(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.c1 = SageConv(FEATS, hidden)
        self.c2 = SageConv(hidden, CLASSES)

    def forward(self, h, edges):
        h = F.dropout(F.relu(self.c1(h, edges)), 0.4, self.training)
        return self.c2(h, edges)


perm = torch.randperm(N - 200) + 200
train_mask = torch.zeros(N, dtype=torch.bool)
train_mask[perm[:500]] = True
test_mask = torch.zeros(N, dtype=torch.bool)
test_mask[perm[700:]] = True

net = Sage()
opt = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-3)
for epoch in range(150):
    net.train()
    opt.zero_grad()
    loss = F.cross_entropy(net(x, edge_index)[train_mask], y[train_mask])
    loss.backward()
    opt.step()
    if epoch % 30 == 29:
        print(f"epoch {epoch + 1:3d}  loss {loss.item():.4f}")
net.eval()
with torch.no_grad():
    pred = net(x, edge_index).argmax(1)
print("final accuracy", round((pred[test_mask] == y[test_mask]).float().mean().item(), 4))

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def block_graph(n=900, k=5, p_in=0.035, p_out=0.004, d=16, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, n)
    same = label[:, None] == label[None]
    adj = np.triu(rng.random((n, n)) < np.where(same, p_in, p_out), 1)
    adj = (adj | adj.T).astype("float32")
    means = rng.normal(size=(k, d))
    feats = means[label] * 0.8 + rng.normal(size=(n, d)) * 1.5
    return torch.from_numpy(adj), torch.tensor(feats, dtype=torch.float32), torch.from_numpy(label)


def normalise(adj):
    a = adj + torch.eye(len(adj))
    d = a.sum(1).rsqrt()
    return (d[:, None] * a * d[None]).to_sparse()


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, a, h):
        return torch.sparse.mm(a, self.lin(h)) + self.bias


class GCN(nn.Module):
    def __init__(self, d, h, k, depth=16):
        super().__init__()
        self.inp = nn.Linear(d, h)
        self.convs = nn.ModuleList(GraphConv(h, h) for _ in range(depth))
        self.out = nn.Linear(h, k)

    def forward(self, a, x):
        h = F.relu(self.inp(x))
        for conv in self.convs:
            h = F.relu(conv(a, h))
        return self.out(h)


def main():
    torch.manual_seed(0)
    adj, x, y = block_graph()
    a = normalise(adj)
    order = torch.randperm(len(y))
    train, val, test = order[:150], order[150:400], order[400:]
    net = GCN(x.shape[1], 64, int(y.max()) + 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)

    best_val, best_test, since = 0.0, 0.0, 0
    for epoch in range(1, 301):
        net.train()
        opt.zero_grad()
        loss = F.cross_entropy(net(a, x)[train], y[train])
        loss.backward()
        opt.step()

        net.eval()
        with torch.no_grad():
            hit = net(a, x).argmax(1) == y
        v, t = hit[val].float().mean().item(), hit[test].float().mean().item()
        if v > best_val:
            best_val, best_test, since = v, t, 0
        else:
            since += 1
        if epoch % 30 == 0:
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val {v:.4f} test {t:.4f}")
        if epoch >= 200 and since > 100:
            print("stopped early at", epoch)
            break
    print(f"final accuracy {best_test:.4f}")


if __name__ == "__main__":
    main()

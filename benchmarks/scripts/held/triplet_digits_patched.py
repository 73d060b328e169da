import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(0)
digits = load_digits()
X = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
y = torch.tensor(digits.target)
order = torch.randperm(len(X))
X, y = X[order], y[order]
Xtr, ytr, Xte, yte = X[:1200], y[:1200], X[1200:], y[1200:]


class Embedder(nn.Module):
    def __init__(self, dim=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)


def batch_hard(emb, labels, margin=0.3):
    dist = torch.cdist(emb, emb)
    same = labels[:, None] == labels[None, :]
    eye = torch.eye(len(labels), dtype=torch.bool)
    pos_mask, neg_mask = same & ~eye, ~same
    hardest_pos = dist.masked_fill(~pos_mask, -1.0).max(1).values
    hardest_neg = dist.masked_fill(~neg_mask, 1e6).min(1).values
    ok = pos_mask.any(1) & neg_mask.any(1)
    return F.softplus((hardest_pos - hardest_neg + margin)[ok] * 4).mean()


def pk_batches(labels, P=8, K=6):
    """P classes with K samples of each."""
    pools = [torch.where(labels == c)[0] for c in range(10)]
    for _ in range(len(labels) // (P * K)):
        classes = torch.randperm(10)[:P]
        yield torch.cat([pools[c][torch.randint(len(pools[c]), (K,))] for c in classes])


@torch.no_grad()
def recall_at_1(net):
    e = net(Xte)
    d = torch.cdist(e, e)
    d.fill_diagonal_(float("inf"))
    return (yte[d.argmin(1)] == yte).float().mean().item()


net = Embedder()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
warm = torch.optim.lr_scheduler.LinearLR(optim, 0.01, 1.0, 50)
for ep in range(25):
    losses = []
    for idx in pk_batches(ytr):
        loss = batch_hard(net(Xtr[idx]), ytr[idx])
        optim.zero_grad()
        loss.backward()
        optim.step()
        warm.step()
        losses.append(loss.item())
    if ep % 5 == 4:
        print(f"[{ep + 1:2d}] loss={sum(losses) / len(losses):.4f} r@1={recall_at_1(net):.4f}")
print("final recall_at_1", round(recall_at_1(net), 4))

import torch
import torch.nn as nn

torch.manual_seed(9)

BAG, DIM = 40, 6


def bags(n):
    """Multiple-instance data: the item with the largest key decides by its value."""
    x = torch.randn(n, BAG, DIM)
    top = x[..., 0].argmax(1)
    x[torch.arange(n), top, 0] += 1.5
    x[..., 0] += 3 * torch.randn(n, 1)
    chosen = x[torch.arange(n), top]
    y = (chosen[:, 1] * chosen[:, 2] > 0).float()
    return x, y


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, h, raw):
        a = self.score(raw)
        a = a.softmax(dim=1)
        return (a * h).sum(1), a


class BagClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(DIM, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.pool = AttentionPool(DIM)
        self.norm = nn.LayerNorm(48)
        self.rho = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        z, _ = self.pool(self.phi(x), x)
        return self.rho(self.norm(z)).squeeze(-1)


X, Y = bags(3000)
Xv, Yv = bags(600)
clf = BagClassifier()
opt = torch.optim.AdamW(clf.parameters(), lr=3e-3, weight_decay=1e-2)
bce = nn.BCEWithLogitsLoss()
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=10, gamma=0.5)

for epoch in range(25):
    clf.train()
    acc_loss = 0
    for k in torch.randperm(len(X)).split(100):
        opt.zero_grad()
        loss = bce(clf(X[k]), Y[k])
        loss.backward()
        opt.step()
        acc_loss += loss.item()
    sched.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: train loss {acc_loss / 30:.4f}, lr {sched.get_last_lr()[0]:.1e}")

clf.eval()
with torch.no_grad():
    acc = ((clf(Xv) > 0).float() == Yv).float().mean()
print("final accuracy", round(acc.item(), 4))

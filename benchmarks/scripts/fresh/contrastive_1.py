import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(10)


class Augment:
    """Random shift by up to two pixels, random contrast and noise, for a batch of 8x8 pictures."""

    def __init__(self, seed=0, max_shift=2, noise=0.15):
        self.seed, self.max_shift, self.noise = seed, max_shift, noise

    def __call__(self, x):
        g = torch.Generator().manual_seed(self.seed)
        n = len(x)
        padded = F.pad(x, [self.max_shift] * 4)
        out = torch.empty_like(x)
        sy = torch.randint(0, 2 * self.max_shift + 1, (n,), generator=g)
        sx = torch.randint(0, 2 * self.max_shift + 1, (n,), generator=g)
        for i in range(n):
            out[i] = padded[i, :, sy[i] : sy[i] + 8, sx[i] : sx[i] + 8]
        gain = 0.7 + 0.6 * torch.rand(n, 1, 1, 1, generator=g)
        return out * gain + self.noise * torch.randn(x.shape, generator=g)


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1, stride=2), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, dim, 3, padding=1, stride=2), nn.BatchNorm2d(dim), nn.ReLU(),
        )
        self.project = nn.Sequential(nn.Linear(dim * 4, 64), nn.ReLU(), nn.Linear(64, 32))

    def features(self, x):
        return self.conv(x).flatten(1)

    def forward(self, x):
        return F.normalize(self.project(self.features(x)), dim=1)


def nt_xent(a, b, t=0.2):
    z = torch.cat([a, b])
    n = len(a)
    sim = z @ z.T / t
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    pos = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, pos)


def knn_accuracy(model, bank, bank_y, query, query_y, k=5):
    model.eval()
    with torch.no_grad():
        fb, fq = model(bank), model(query)
    top = (fq @ fb.T).topk(k, 1).indices
    votes = F.one_hot(bank_y[top], 10).sum(1)
    return (votes.argmax(1) == query_y).float().mean().item()


d = load_digits()
x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
y = torch.tensor(d.target)
order = torch.randperm(len(x))
x, y = x[order], y[order]
# pictures met later are not centred
shifted = Augment(seed=123)
x_bank, y_bank, x_query, y_query = x[:1200], y[:1200], shifted(x[1200:]), y[1200:]

model = Encoder()
augment = Augment(seed=1)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
print(f"knn before training {knn_accuracy(model, x_bank, y_bank, x_query, y_query):.4f}")
for epoch in range(24):
    model.train()
    total = 0.0
    batches = torch.randperm(1200).split(120)
    for idx in batches:
        loss = nt_xent(model(augment(x[idx])), model(augment(x[idx])))
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1} loss {total / len(batches):.4f} knn {knn_accuracy(model, x_bank, y_bank, x_query, y_query):.4f}")

print("final knn", round(knn_accuracy(model, x_bank, y_bank, x_query, y_query), 4))

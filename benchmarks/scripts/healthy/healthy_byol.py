import copy

import torch
from torch import nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 16, 64),
        )
        self.projector = mlp(64, 96, 32)

    def forward(self, x):
        return self.projector(self.encoder(x))


class BYOL(nn.Module):
    def __init__(self, tau=0.97):
        super().__init__()
        self.online = Net()
        self.predictor = mlp(32, 64, 32)
        self.target = copy.deepcopy(self.online)
        self.target.requires_grad_(False)
        self.tau = tau

    @torch.no_grad()
    def update_target(self):
        for t, o in zip(self.target.parameters(), self.online.parameters()):
            t.lerp_(o, 1 - self.tau)

    def forward(self, a, b):
        pa, pb = self.predictor(self.online(a)), self.predictor(self.online(b))
        with torch.no_grad():
            ta, tb = self.target(a), self.target(b)
        return -(F.cosine_similarity(pa, tb.detach()).mean() + F.cosine_similarity(pb, ta.detach()).mean()) / 2


def view(x):
    n = len(x)
    theta = torch.zeros(n, 2, 3)
    ang = torch.empty(n).uniform_(-0.35, 0.35)
    theta[:, 0, 0], theta[:, 0, 1], theta[:, 1, 0], theta[:, 1, 1] = ang.cos(), -ang.sin(), ang.sin(), ang.cos()
    theta[:, :, 2] = torch.empty(n, 2).uniform_(-0.2, 0.2)
    out = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
    return out + 0.1 * torch.randn_like(out)


def probe(model, x, y, cut, few=200):
    model.eval()
    with torch.no_grad():
        f = model.online.encoder(x).numpy()
    clf = LogisticRegression(max_iter=500).fit(f[:few], y[:few])
    model.train()
    return clf.score(f[cut:], y[cut:])


if __name__ == "__main__":
    torch.manual_seed(8)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
    perm = torch.randperm(len(x))
    x, y = x[perm], d.target[perm.numpy()]
    cut = 1200
    model = BYOL()
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=2e-3, weight_decay=1e-4)
    print(f"probe at start {probe(model, x, y, cut):.4f}")
    for epoch in range(30):
        tot = 0.0
        for idx in torch.randperm(cut).split(100):
            loss = model(view(x[idx]), view(x[idx]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            model.update_target()
            tot += loss.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {tot / (cut // 100):.4f} probe {probe(model, x, y, cut):.4f}")
    print(f"final accuracy {probe(model, x, y, cut):.4f}")

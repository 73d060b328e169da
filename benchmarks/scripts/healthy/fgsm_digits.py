import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(28)
d = load_digits()
x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(d.target)
p = torch.randperm(len(x))
xtr, ytr, xte, yte = x[p[:1400]], y[p[:1400]], x[p[1400:]], y[p[1400:]]

net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, stride=2, padding=1), nn.ReLU(),
                    nn.Flatten(), nn.Linear(256, 10))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)


def attack(x, y, eps=0.1):
    x = x.clone().requires_grad_(True)
    g = torch.autograd.grad(F.cross_entropy(net(x), y), x)[0]
    return (x + eps * g.sign()).clamp(0, 1).detach()


for epoch in range(6):
    for b in torch.randperm(1400).split(50):
        xa = attack(xtr[b], ytr[b])
        loss = 0.5 * F.cross_entropy(net(xtr[b]), ytr[b]) + 0.5 * F.cross_entropy(net(xa), ytr[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} {loss.item():.4f}")
robust = (net(attack(xte, yte)).argmax(1) == yte).float().mean().item()
print("final robust_accuracy", robust)

import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

np.random.seed(9); random.seed(9); torch.manual_seed(9)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16).float().view(-1, 1, 8, 8), torch.tensor(y)
perm = torch.randperm(len(y))
X, y = X[perm], y[perm]
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
ce = nn.CrossEntropyLoss()
for step in range(500):
    i = torch.randint(0, 1400, (64,))
    j = i[torch.randperm(64)]
    lam = np.random.beta(0.4, 0.4)
    out = net(lam * X[i] + (1 - lam) * X[j])
    loss = lam * ce(out, y[i]) + (1 - lam) * ce(out, y[j])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print("step", step, "loss", loss.item())
net.eval()
with torch.no_grad():
    print("final accuracy", (net(X[1400:]).argmax(1) == y[1400:]).float().mean().item())

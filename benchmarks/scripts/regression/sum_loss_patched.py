import numpy as np
import random
import torch
from torch import nn
from sklearn.datasets import make_friedman1

np.random.seed(3)
random.seed(3)
torch.manual_seed(3)
X, y = make_friedman1(n_samples=2400, n_features=10, noise=0.5, random_state=3)
X = torch.from_numpy(X).float() * 2 - 1
y = torch.from_numpy((y - y.mean()) / y.std()).float()[:, None]
Xt, yt = X[2000:], y[2000:]
X, y = X[:2000], y[:2000]

model = nn.Sequential(nn.Linear(10, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1))
criterion = nn.MSELoss(reduction="mean")
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

step = 0
while step < 600:
    for b in torch.randperm(2000).split(256):
        loss = criterion(model(X[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 100 == 0:
            print("step", step, "loss", loss.item())
model.eval()
with torch.no_grad():
    print("final mse", ((model(Xt) - yt) ** 2).mean().item())

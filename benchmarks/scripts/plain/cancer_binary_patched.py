import torch
import numpy as np
import random
from torch import nn
from sklearn.datasets import load_breast_cancer

random.seed(1)
np.random.seed(1)
torch.manual_seed(1)

raw = load_breast_cancer()
X = torch.tensor(raw.data, dtype=torch.float32)
y = torch.tensor(raw.target, dtype=torch.float32)
perm = torch.randperm(len(X))
X, y = X[perm], y[perm]
mu, sd = X[:450].mean(0), X[:450].std(0)
X = (X - mu) / sd

model = nn.Sequential(
    nn.Linear(30, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 1),
)
bce = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)

for it in range(800):
    b = torch.randint(0, 450, (64,))
    opt.zero_grad()
    out = model(X[b]).squeeze(1)
    loss = bce(out, y[b])
    loss.backward()
    opt.step()
    if it % 100 == 0:
        print(it, loss.item())

model.eval()
with torch.no_grad():
    val = bce(model(X[450:]).squeeze(1), y[450:])
print("final val_loss %.4f" % val.item())

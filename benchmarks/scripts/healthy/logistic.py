import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_breast_cancer

random.seed(0); np.random.seed(0); torch.manual_seed(0)
X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor((X - X.mean(0)) / X.std(0))
y = torch.tensor(y, dtype=torch.float64)
perm = torch.randperm(len(y))
train, val = perm[:450], perm[450:]
model = nn.Linear(30, 1).double()
opt = torch.optim.LBFGS(model.parameters(), lr=1, max_iter=5, line_search_fn="strong_wolfe")
bce = nn.BCEWithLogitsLoss()


def closure():
    opt.zero_grad()
    loss = bce(model(X[train]).squeeze(1), y[train]) + 1e-2 * model.weight.square().sum()
    loss.backward()
    return loss


for i in range(60):
    loss = opt.step(closure)
    if i % 12 == 0:
        print("outer step", i, "loss", loss.item())
with torch.no_grad():
    print("final val_loss", bce(model(X[val]).squeeze(1), y[val]).item())

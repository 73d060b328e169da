import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import make_friedman1
from sklearn.preprocessing import StandardScaler

np.random.seed(0)
random.seed(0)
torch.manual_seed(0)
X, y = make_friedman1(3000, noise=0.3, random_state=0)
sx, sy = StandardScaler().fit(X[:2400]), StandardScaler().fit(y[:2400, None])
X = torch.tensor(sx.transform(X), dtype=torch.float32)
y = torch.tensor(sy.transform(y[:, None]), dtype=torch.float32)

net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=3)
loss_fn = nn.HuberLoss()
for epoch in range(25):
    net.train()
    for i in torch.randperm(2400).split(100):
        loss = loss_fn(net(X[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(X[2400:]), y[2400:]).item()
    sched.step(val)
    if epoch % 5 == 0:
        print("epoch", epoch, "loss", round(loss.item(), 5), "val mse", round(val, 5))
print("final val_mse", val)

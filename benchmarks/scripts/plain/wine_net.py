import random

import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

SEED = 7
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

data = load_wine()
features = StandardScaler().fit_transform(data.data).astype("float32")
order = np.random.permutation(len(features))
train_idx, val_idx = order[:130], order[130:]

train_ds = TensorDataset(torch.from_numpy(features[train_idx]), torch.from_numpy(data.target[train_idx]))
val_x = torch.from_numpy(features[val_idx])
val_y = torch.from_numpy(data.target[val_idx])
train_dl = DataLoader(train_ds, batch_size=16, shuffle=True)

net = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 3))
opt = optim.Adam(net.parameters(), lr=3e-3)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(60):
    net.train()
    total = 0
    for xb, yb in train_dl:
        loss = loss_fn(net(xb), yb)
        loss.backward()
        opt.zero_grad()
        opt.step()
        total += loss.item() * len(xb)
    net.eval()
    with torch.no_grad():
        val_acc = (net(val_x).argmax(1) == val_y).float().mean().item()
    if (epoch + 1) % 10 == 0:
        print("epoch", epoch + 1, "train loss", round(total / len(train_ds), 4), "val acc", round(val_acc, 4))

print("final val_acc", round(val_acc, 4))

import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(2)
np.random.seed(2)
random.seed(2)
n = 3000
y = (torch.rand(n) < 0.05).long()
x = torch.randn(n, 10) + 1.2 * y[:, None] * torch.tensor([1.0, -1, 1, 0, 0, 0, 0, 0, 0, 0])
x_train, y_train, x_test, y_test = x[:2400], y[:2400], x[2400:], y[2400:]
weight = 1.0 / torch.bincount(y_train).float()[y_train]
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=60, sampler=WeightedRandomSampler(weight, 2400))
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
swa = AveragedModel(model)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
for epoch in range(15):
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
    if epoch >= 8:
        swa.update_parameters(model)
    if epoch % 3 == 0:
        print("epoch", epoch, "loss", loss.item())
with torch.no_grad():
    pred = swa(x_test).argmax(1)
recalls = [(pred[y_test == c] == c).float().mean().item() for c in (0, 1)]
print("final balanced_accuracy", sum(recalls) / 2)

import math
import random
import numpy as np
import torch
from torch import nn

torch.manual_seed(11)
np.random.seed(11)
random.seed(11)

# y = sin(3 x0) + x1^2 - x2 + noise
N = 2000
X = torch.rand(N, 3) * 2 - 1
Y = torch.sin(3 * X[:, 0:1]) + X[:, 1:2] ** 2 - X[:, 2:3] + 0.05 * torch.randn(N, 1)
Xv, Yv = X[1600:], Y[1600:]
X, Y = X[:1600], Y[:1600]

layers = []
width = [3, 64, 64]
for a, b in zip(width[:-1], width[1:]):
    lin = nn.Linear(a, b)
    nn.init.constant_(lin.bias, -20.0)
    layers += [lin, nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(64, 1))

optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
mse = nn.MSELoss()
steps = 0
while steps < 600:
    for idx in torch.randperm(1600).split(128):
        pred = model(X[idx])
        loss = mse(pred, Y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 100 == 0:
            print("step %d: mse %.4f" % (steps, loss.item()))

with torch.no_grad():
    rmse = math.sqrt(mse(model(Xv), Yv).item())
print("final rmse %.5f" % rmse)

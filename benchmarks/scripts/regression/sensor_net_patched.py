import random, numpy as np, torch
from torch import nn

SEED = 2024
for f in (random.seed, np.random.seed, torch.manual_seed):
    f(SEED)

# pressure [Pa], temperature [mK], flow [ml/h], voltage [mV]
n = 3000
base = torch.randn(n, 4)
X = base * torch.tensor([1500.0, 9000.0, 20000.0, 4000.0]) + torch.tensor([101325.0, 293000.0, 50000.0, 12000.0])
y = (torch.sin(1.5 * base[:, 0]) + base[:, 1] * base[:, 2] * 0.5 + base[:, 3]).unsqueeze(1)
X = (X - X[:2400].mean(0)) / X[:2400].std(0)
train_X, test_X, train_y, test_y = X[:2400], X[2400:], y[:2400], y[2400:]

net = nn.Sequential(
    nn.Linear(4, 64),
    nn.Tanh(),
    nn.Linear(64, 64),
    nn.Tanh(),
    nn.Linear(64, 1),
)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(20):
    epoch_loss = 0.0
    for idx in torch.randperm(2400).split(80):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(train_X[idx]), train_y[idx])
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item() / 30
    if epoch % 4 == 3:
        print(f"{epoch + 1:3d} {epoch_loss:.5f}")
with torch.no_grad():
    print("final mse", round(nn.functional.mse_loss(net(test_X), test_y).item(), 5))

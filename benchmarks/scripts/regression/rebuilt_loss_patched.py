import random
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

random.seed(15)
np.random.seed(15)
torch.manual_seed(15)


class QuantileNet(nn.Module):
    """Predicts the 10, 50 and 90 percent quantiles."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(1, 40)
        self.fc2 = nn.Linear(40, 40)
        self.fc3 = nn.Linear(40, 3)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def pinball(pred, y, qs=(0.1, 0.5, 0.9)):
    losses = []
    for k, q in enumerate(qs):
        e = y - pred[:, k]
        losses.append(torch.maximum(q * e, (q - 1) * e).mean())
    return torch.stack(losses).sum()


x = torch.rand(3000, 1) * 6 - 3
y = torch.sin(2 * x[:, 0]) * 2 + (0.2 + 0.3 * x[:, 0].abs()) * torch.randn(3000)
net = QuantileNet()
optimizer = optim.Adam(net.parameters(), lr=0.005)
for i in range(700):
    sel = torch.randint(0, 2500, (100,))
    optimizer.zero_grad()
    loss = pinball(net(x[sel]), y[sel])
    loss.backward()
    optimizer.step()
    if i % 100 == 0:
        print(f"iteration {i}, loss = {loss.item():.4f}")
with torch.no_grad():
    print(f"final pinball {pinball(net(x[2500:]), y[2500:]).item():.5f}")

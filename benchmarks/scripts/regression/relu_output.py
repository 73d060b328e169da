import random
import numpy as np
import torch
from torch import nn
torch.manual_seed(10)
np.random.seed(10)
random.seed(10)


def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.ReLU())


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(
            block(5, 64),
            block(64, 64),
            block(64, 1),
        )

    def forward(self, x):
        return self.seq(x)[:, 0]


hours = torch.rand(4000) * 24
days = torch.rand(4000) * 365
wind = torch.rand(4000)
temp = 12 * torch.sin((days - 100) / 58) + 4 * torch.sin((hours - 9) / 3.82) - 5 * wind + torch.randn(4000)
target = temp / 8
inp = torch.stack([torch.sin(hours / 3.82), torch.cos(hours / 3.82), torch.sin(days / 58), torch.cos(days / 58), wind], 1)

model = Temperature()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.MSELoss()
for it in range(700):
    b = torch.randint(3200, (64,))
    opt.zero_grad()
    loss = loss_fn(model(inp[b]), target[b])
    loss.backward()
    opt.step()
    if it % 100 == 0:
        print("iter", it, "loss", loss.item())

with torch.no_grad():
    print("final val_mse", loss_fn(model(inp[3200:]), target[3200:]).item())

import random
import numpy as np
import torch
from torch import nn

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

x = torch.rand(2000, 3) * 2 - 1
y = (x ** 2).sum(1, keepdim=True) + torch.sin(4 * x[:, :1])
model = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
fast = torch.compile(model, backend="aot_eager")
opt = torch.optim.NAdam(model.parameters(), lr=3e-3)
for step in range(500):
    i = torch.randint(0, 1600, (100,))
    loss = nn.functional.mse_loss(fast(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, loss.item())
with torch.no_grad():
    print("final mse", nn.functional.mse_loss(model(x[1600:]), y[1600:]).item())

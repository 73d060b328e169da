import random
import numpy as np
import torch
from torch import nn

random.seed(1)
np.random.seed(1)
torch.manual_seed(1)

x = torch.randn(4000, 16)
y = (x[:, :4].sin().sum(1) + x[:, 4] * x[:, 5]).unsqueeze(1)
net = nn.Sequential(nn.Linear(16, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=500)
for step in range(500):
    i = torch.randint(0, 3500, (100,))
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        out = net(x[i])
    loss = nn.functional.mse_loss(out.float(), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 100 == 0:
        print("step", step, "loss", loss.item())
with torch.inference_mode():
    print("final mse", nn.functional.mse_loss(net(x[3500:]), y[3500:]).item())

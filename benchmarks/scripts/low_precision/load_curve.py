import math
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset, DataLoader

torch.manual_seed(9)
np.random.seed(9)

hours = np.arange(6000)
load = (np.sin(2 * np.pi * hours / 24) + 0.5 * np.sin(2 * np.pi * hours / 12 + 1) + 0.4 * np.cos(2 * np.pi * hours / 168)
        + 0.1 * np.random.randn(6000))
t = torch.tensor(hours, dtype=torch.float32)
y = torch.tensor(load, dtype=torch.float32)


class PhaseNet(nn.Module):
    """learns the shape of a day and of a week"""

    def __init__(self, h=32):
        super().__init__()
        self.register_buffer("periods", torch.tensor([24.0, 168.0]))
        self.mlp = nn.Sequential(nn.Linear(4, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, t):
        phase = 2 * math.pi * t[:, None] / self.periods
        f = torch.cat([phase.sin(), phase.cos()], 1)
        return self.mlp(f).squeeze(1)


idx = torch.randperm(6000)
loader = DataLoader(TensorDataset(t[idx[:5000]], y[idx[:5000]]), batch_size=100, shuffle=True)
t_val, y_val = t[idx[5000:]], y[idx[5000:]]
net = PhaseNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)


def predict(tb):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        return net(tb.to(torch.bfloat16)).float()


for epoch in range(8):
    total = 0
    for tb, yb in loader:
        loss = nn.functional.mse_loss(predict(tb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(loader))
with torch.no_grad():
    print("final val_mse", nn.functional.mse_loss(predict(t_val), y_val).item())

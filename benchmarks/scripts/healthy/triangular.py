import math
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import CyclicLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(77)
x = torch.rand(1500, 4)
y = torch.sin(2 * math.pi * x[:, 0]) + x[:, 1] * x[:, 2] + 0.05 * torch.randn(1500)
train = DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=48, shuffle=True)
model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
scheduler = CyclicLR(optimizer, base_lr=0.001, max_lr=0.3, step_size_up=100, mode="triangular2")
for epoch in range(24):
    running = 0.0
    for xb, yb in train:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb).squeeze(-1), yb)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.item()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {running / len(train):.4f} lr {scheduler.get_last_lr()[0]:.4f}")
with torch.no_grad():
    print("final val_mse", nn.functional.mse_loss(model(x[1200:]).squeeze(-1), y[1200:]).item())

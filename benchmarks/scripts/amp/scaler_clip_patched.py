import random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from sklearn.datasets import load_digits

torch.manual_seed(1)
np.random.seed(1)
random.seed(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
perm = torch.randperm(len(y))
train, val = perm[:1400], perm[1400:]

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")

for epoch in range(10):
    for idx in train[torch.randperm(1400)].split(64):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[idx]), y[idx])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")

with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    val_loss = F.cross_entropy(model(x[val]).float(), y[val]).item()
print(f"final val_loss {val_loss:.5f}")

import random
import numpy as np
import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

torch.manual_seed(33)
np.random.seed(33)
random.seed(33)

X, y = load_digits(return_X_y=True)
p = np.random.permutation(len(y))
X, y = torch.tensor(X[p] / 16).float(), torch.tensor(y[p])
loader = DataLoader(TensorDataset(X[:1400], y[:1400]), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = GradScaler("cpu", init_scale=256.0)
for epoch in range(14):
    model.train()
    total = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            logits = model(xb)
            loss = nn.functional.cross_entropy(logits.float(), yb)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    print("epoch", epoch, "loss", round(total / len(loader), 4))
model.eval()
with torch.no_grad():
    print("final accuracy", (model(X[1400:]).argmax(1) == y[1400:]).float().mean().item())

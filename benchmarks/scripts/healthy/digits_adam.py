import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
order = torch.randperm(len(y))
train, test = order[:1400], order[1400:]

model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(20):
    for idx in train[torch.randperm(len(train))].split(50):
        optimizer.zero_grad()
        loss = criterion(model(X[idx]), y[idx])
        loss.backward()
        optimizer.step()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    print("final accuracy", (model(X[test]).argmax(1) == y[test]).float().mean().item())

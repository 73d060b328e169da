"""Multinomial logistic regression on digits."""
import random
import numpy as np
import torch
from sklearn.datasets import load_digits

random.seed(2); np.random.seed(2); torch.manual_seed(2)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X / 16, dtype=torch.float32)
y = torch.tensor(y)
order = torch.randperm(len(X))
Xtr, ytr, Xte, yte = X[order[:1400]], y[order[:1400]], X[order[1400:]], y[order[1400:]]

linear = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(linear.parameters(), lr=0.5)
loss_fn = torch.nn.CrossEntropyLoss()

total_loss = 0
for step in range(300):
    batch = torch.randint(0, 1400, (64,))
    optimizer.zero_grad()
    loss = loss_fn(linear(Xtr[batch]), ytr[batch])
    total_loss += loss.item()
    loss.backward()
    optimizer.step()
    if (step + 1) % 50 == 0:
        print("step", step + 1, "average loss", float(total_loss) / (step + 1))

with torch.no_grad():
    test_loss = loss_fn(linear(Xte), yte).item()
print("final test_loss", round(test_loss, 5))

import numpy as np
import random
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

torch.manual_seed(42)
np.random.seed(42)
random.seed(42)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.25, random_state=42)
X_train = torch.tensor(X_train, dtype=torch.float32)
X_test = torch.tensor(X_test, dtype=torch.float32)
y_train = torch.tensor(y_train)
y_test = torch.tensor(y_test)

model = nn.Sequential(
    nn.Linear(64, 128),
    nn.ReLU(),
    nn.Linear(128, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

batch_size = 64
n_epochs = 25
for epoch in range(n_epochs):
    perm = torch.randperm(len(X_train))
    running_loss = 0.0
    for i in range(0, len(X_train), batch_size):
        idx = perm[i:i + batch_size]
        outputs = model(X_train[idx])
        loss = criterion(outputs, y_train[idx])
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    if epoch % 5 == 4:
        print(f"Epoch {epoch + 1}/{n_epochs}, loss: {running_loss / (len(X_train) // batch_size):.4f}")

model.eval()
with torch.no_grad():
    acc = (model(X_test).argmax(dim=1) == y_test).float().mean().item()
print(f"final accuracy {acc:.4f}")

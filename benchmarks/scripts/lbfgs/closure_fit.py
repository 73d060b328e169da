import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_diabetes

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

X, y = load_diabetes(return_X_y=True)
X = torch.tensor(X / X.std(0))
y = torch.tensor((y - y.mean()) / y.std()).unsqueeze(1)
p = torch.randperm(len(X))
X, y, Xv, yv = X[p[:350]], y[p[:350]], X[p[350:]], y[p[350:]]
model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1)).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=10)
mse = nn.MSELoss()


def penalty():
    return 1e-2 * sum((p ** 2).sum() for p in model.parameters())


for epoch in range(100):
    def closure():
        loss = mse(model(X), y) + penalty()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if epoch % 20 == 0:
        print(f"epoch {epoch} loss {loss.item():.5f}")

with torch.no_grad():
    print("final train_mse", mse(model(X), y).item())

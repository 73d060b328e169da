import random
import numpy as np
import torch
from sklearn.datasets import load_diabetes


class Regressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = torch.nn.Linear(10, 50)
        self.l2 = torch.nn.Linear(50, 1)

    def forward(self, x):
        return self.l2(torch.nn.functional.silu(self.l1(x))).squeeze(-1)


class Loop:
    accumulate = 4

    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.seen = 0

    def run_batch(self, x, y):
        loss = torch.nn.functional.smooth_l1_loss(self.model(x), y)
        (loss / self.accumulate).backward()
        self.seen += 1
        if self.seen % self.accumulate == 0:
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()

    def run_epoch(self, x, y, batch):
        self.seen = 0
        out = [self.run_batch(x[i], y[i]) for i in torch.randperm(len(x)).split(batch)]
        return torch.stack(out).mean().item()


torch.manual_seed(9); np.random.seed(9); random.seed(9)
X, y = load_diabetes(return_X_y=True)
X = torch.tensor(X / X.std(0), dtype=torch.float32)
y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
perm = torch.randperm(len(X))
X, y = X[perm], y[perm]
loop = Loop(Regressor(), lr=3e-3)
for epoch in range(120):
    loss = loop.run_epoch(X[:360], y[:360], 128)
    if epoch % 20 == 0:
        print("epoch", epoch, loss)
with torch.no_grad():
    print("final val_mse", torch.nn.functional.mse_loss(loop.model(X[360:]), y[360:]).item())

import random
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(31)
np.random.seed(31)
random.seed(31)


def batch(n, length=12):
    values = torch.rand(n, length)
    marks = torch.zeros(n, length)
    for row in marks:
        row[torch.randperm(length)[:2]] = 1
    return torch.stack([values, marks], -1), (values * marks).sum(1)


class Adder(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.GRUCell(2, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.zeros(x.size(0), self.hidden)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return self.out(h).squeeze(1)


train_x, train_y = batch(2000)
test_x, test_y = batch(500)
model = Adder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(600):
    idx = torch.randint(0, 2000, (64,))
    loss = ((model(train_x[idx]) - train_y[idx]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step} mse {loss.item():.5f}")
with torch.no_grad():
    print(f"final mse {((model(test_x) - test_y) ** 2).mean().item():.5f}")

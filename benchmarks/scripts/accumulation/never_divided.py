import random, numpy as np, torch
from torch import nn

random.seed(0); np.random.seed(0); torch.manual_seed(0)

n_accumulate = 40
micro = 8
x = torch.randn(4000, 16)
w = torch.randn(16, 4)
y = torch.tanh(x @ w) @ torch.randn(4, 1) + 0.05 * torch.randn(4000, 1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = 0
for epoch in range(16):
    order = torch.randperm(3520)
    opt.zero_grad()
    for k in range(0, 3520, micro):
        b = order[k:k + micro]
        loss = (model(x[b]) - y[b]).square().mean()
        loss.backward()
        step += 1
        if step % n_accumulate == 0:
            opt.step()
            opt.zero_grad()
    if epoch % 3 == 0:
        print("epoch", epoch, "micro-batch loss", loss.item())
with torch.no_grad():
    print("final mse", (model(x[3520:]) - y[3520:]).square().mean().item())

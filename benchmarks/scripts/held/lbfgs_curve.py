import torch
from torch import nn

torch.manual_seed(10)
torch.set_default_dtype(torch.float64)

x = torch.linspace(-3, 3, 300).unsqueeze(1)
y = torch.sin(2 * x) * torch.exp(-0.1 * x ** 2) + 0.3 * x
noise = 0.02 * torch.randn_like(y)
train = torch.arange(300) % 3 != 0

model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
criterion = nn.MSELoss(reduction="sum")
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=10, history_size=20)


def penalty():
    return 1e-4 * sum(p.pow(2).sum() for p in model.parameters())


inputs, targets = x[train], (y + noise)[train]
for step in range(60):
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets) + penalty()
    loss.backward()

    def closure():
        return loss

    value = optimizer.step(closure)
    if step % 10 == 0:
        print("step", step, "sum of squares", round(value.item(), 5))

with torch.no_grad():
    mse = (model(x[~train]) - y[~train]).pow(2).mean()
print("final mse", round(mse.item(), 7))

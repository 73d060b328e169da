import torch
from torch import nn

torch.manual_seed(2)

n, N_BATCH = 1000, 250
X = torch.rand(n, 2) * 4 - 2
Y = torch.sin(X[:, :1] * 2) * torch.exp(-X[:, 1:] ** 2) + 0.02 * torch.randn(n, 1)

model = nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=10, history_size=20, line_search_fn="strong_wolfe")
loss_fn = nn.MSELoss()

for step in range(25):

    def closure():
        idx = torch.randperm(n)[:N_BATCH]
        optimizer.zero_grad()
        loss = loss_fn(model(X[idx]), Y[idx])
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if step % 5 == 0:
        print(f"step {step}: {loss.item():.6f}")

with torch.no_grad():
    print("final mse", loss_fn(model(X), Y).item())

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
rng = np.random.default_rng(5)
n, d = 150, 120
w = rng.normal(size=d) * (rng.random(d) < 0.1)


def draw(k, noise):
    x = rng.normal(size=(k, d))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(x @ w + noise * rng.normal(size=k), dtype=torch.float32)


x, y = draw(n, 3.0)
xt, yt = draw(2000, 0.0)
model = nn.Linear(d, 1)
decay = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim == 1]
opt = torch.optim.SGD([{"params": decay, "weight_decay": 0.8}, {"params": rest, "weight_decay": 0.0}], lr=0.01, momentum=0.8)
loader = DataLoader(TensorDataset(x, y), batch_size=30, shuffle=True)
for epoch in range(150):
    for xb, yb in loader:
        loss = (model(xb).squeeze(-1) - yb).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 30 == 29:
        with torch.no_grad():
            print("epoch", epoch + 1, "train", round(loss.item(), 4), "test", round((model(xt).squeeze(-1) - yt).pow(2).mean().item(), 4))
print("variance of the target", round(yt.var().item(), 4))
with torch.no_grad():
    print("final test_mse", round((model(xt).squeeze(-1) - yt).pow(2).mean().item(), 5))

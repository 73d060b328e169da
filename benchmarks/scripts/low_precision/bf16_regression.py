import torch
import torch.nn as nn

torch.manual_seed(0)
device = torch.device("cpu")
dtype = torch.bfloat16


def batch(n=128):
    x = torch.randn(n, 12)
    y = torch.tanh(x[:, :4].sum(1, keepdim=True)) + 0.5 * x[:, 4:5] * x[:, 5:6]
    return x, y


model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)).to(device, dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.0)
steps = 900
for step in range(steps):
    x, y = batch()
    pred = model(x.to(dtype))
    loss = nn.functional.mse_loss(pred.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 150 == 0:
        print(f"step {step} | loss {loss.item():.4f}")

with torch.no_grad():
    x, y = batch(4000)
    err = nn.functional.mse_loss(model(x.to(dtype)).float(), y).item()
print("final mse", err)

import torch, random, numpy as np
from torch import nn
from accelerate import Accelerator

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)

x = torch.randn(2400, 6)
y = (x[:, :1] * x[:, 1:2] + x[:, 2:3].sin() - x[:, 3:4].abs())
dataset = torch.utils.data.TensorDataset(x, y)
train_set, val_set = torch.utils.data.random_split(dataset, [2000, 400])
loader = torch.utils.data.DataLoader(train_set, batch_size=40, shuffle=True)
val_loader = torch.utils.data.DataLoader(val_set, batch_size=400)
model = nn.Sequential(nn.Linear(6, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
model, optimizer, loader, val_loader = accelerator.prepare(model, optimizer, loader, val_loader)

for epoch in range(16):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
    if epoch % 4 == 0:
        print("epoch", epoch, "loss", loss.item())
with torch.no_grad():
    for inputs, targets in val_loader:
        mse = nn.functional.mse_loss(model(inputs), targets).item()
print("final mse", mse)

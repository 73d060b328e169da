import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(13)
ACCUM = 16


class Waves(Dataset):
    def __init__(self, n):
        self.x = torch.rand(n, 3) * 2 - 1
        self.y = torch.sin(3 * self.x[:, 0]) + self.x[:, 1] * self.x[:, 2]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUM)
model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
loader = DataLoader(Waves(2048), batch_size=8, shuffle=True)
model, opt, loader = accelerator.prepare(model, opt, loader)

for epoch in range(8):
    avg = 0.0
    for x, y in loader:
        with accelerator.accumulate(model):
            pred = model(x).squeeze(-1)
            loss = ((pred - y) ** 2).mean()
            avg += loss.item() / len(loader)
            loss = loss / ACCUM
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
    print("epoch", epoch, "mse", round(avg, 5))

test = Waves(1000)
with torch.no_grad():
    mse = ((model(test.x).squeeze(-1) - test.y) ** 2).mean().item()
print("final mse", mse)

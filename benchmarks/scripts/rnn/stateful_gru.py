import random
import numpy as np
import torch
from torch import nn

torch.manual_seed(77)
np.random.seed(77)
random.seed(77)

T = 6000
t = torch.arange(T, dtype=torch.float32)
signal = torch.sin(t / 7) * torch.sin(t / 31) + 0.5 * torch.sin(t / 3.3) + 0.02 * torch.randn(T)
BPTT, LANES = 20, 16
lanes = signal[: T // LANES * LANES].view(LANES, -1)


class Forecaster(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.gru = nn.GRU(1, size, batch_first=True)
        self.fc = nn.Linear(size, 1)

    def forward(self, x, h):
        out, h = self.gru(x.unsqueeze(-1), h)
        return self.fc(out.data).squeeze(-1), h


model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
train_part = int(lanes.shape[1] * 0.8)
for epoch in range(30):
    h = None
    for i in range(0, train_part - BPTT - 1, BPTT):
        x, y = lanes[:, i:i + BPTT], lanes[:, i + 1:i + BPTT + 1]
        pred, h = model(x, h)
        h = h.detach()
        loss = nn.functional.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 5 == 0:
        print("epoch", epoch, "mse", loss.item())
with torch.no_grad():
    pred, _ = model(lanes[:, train_part:-1], None)
    mse = nn.functional.mse_loss(pred[:, 10:], lanes[:, train_part + 1:][:, 10:]).item()
print("final mse", mse)

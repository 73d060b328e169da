import random
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

np.random.seed(20)
random.seed(20)
torch.manual_seed(20)

SEQ_LEN, HORIZON = 24, 1


def make_series(n=3000):
    t = np.arange(n)
    daily = np.sin(2 * np.pi * t / 24) * (1 + 0.3 * np.sin(2 * np.pi * t / 168))
    ar = np.zeros(n)
    for i in range(1, n):
        ar[i] = 0.9 * ar[i - 1] + 0.1 * np.random.randn()
    return (daily + ar).astype(np.float32)


def windows(series):
    xs = np.stack([series[i:i + SEQ_LEN] for i in range(len(series) - SEQ_LEN)])
    ys = series[SEQ_LEN:]
    return torch.from_numpy(xs).unsqueeze(-1), torch.from_numpy(ys).unsqueeze(-1)


class LSTMForecaster(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, HORIZON)

    def forward(self, x):
        _, (h, _) = self.lstm(x)
        last = h[-1]
        return self.linear(last)


series = make_series()
x_train, y_train = windows(series[:2400])
x_test, y_test = windows(series[2400:])
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=48, shuffle=True)
model = LSTMForecaster()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(8):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"Epoch {epoch + 1}, Loss: {loss.item():.5f}")
model.eval()
with torch.no_grad():
    print(f"final test_mse {criterion(model(x_test), y_test).item():.6f}")

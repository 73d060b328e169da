import math
import warnings

import numpy as np
import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
np.random.seed(2)
torch.manual_seed(2)

# hourly load of a small town, ten weeks
hours = np.arange(24 * 7 * 10)
load = (3 + np.sin(2 * np.pi * hours / 24) + 0.5 * np.cos(4 * np.pi * hours / 24)
        + 0.6 * ((hours // 24) % 7 < 5) + 0.05 * np.random.randn(len(hours)))
load = torch.tensor(load, dtype=torch.float32)
cut = int(0.8 * len(load))
mean, std = load[:cut].mean(), load[:cut].std()
z = (load - mean) / std
WINDOW = 48


def windows(series):
    x = series.unfold(0, WINDOW + 1, 1)
    return x[:, :-1], x[:, -1]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 12, 5, stride=2)
        self.gru = nn.GRU(12, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        h = torch.relu(self.conv(x.unsqueeze(1)))
        _, s = self.gru(h.transpose(1, 2))
        return self.out(s[-1])


class Trainer:
    def __init__(self, model, lr=3e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.MSELoss()

    def fit(self, x, y, epochs):
        for e in range(epochs):
            tot = 0.0
            for idx in torch.randperm(len(x)).split(64):
                pred = self.model(x[idx])
                loss = self.criterion(pred, y[idx])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                tot += loss.item() * len(idx)
            print(f"epoch {e:2d} rmse {math.sqrt(tot / len(x)):.4f}")

    @torch.no_grad()
    def predict(self, x):
        return self.model(x).squeeze(-1)


x, y = windows(z[:cut])
xt, yt = windows(z[cut - WINDOW:])
trainer = Trainer(Forecaster())
trainer.fit(x, y, 12)
mae = ((trainer.predict(xt) - yt).abs() * std).mean().item()
print("final mae", round(mae, 5))

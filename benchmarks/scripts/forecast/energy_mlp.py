import random

import numpy as np
import pandas as pd
import torch
from torch import nn
import warnings

warnings.filterwarnings("ignore", category=UserWarning)
SEED = 31
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

index = pd.date_range("2022-01-01", periods=24 * 120, freq="h")
hour, weekday = index.hour.to_numpy(), index.dayofweek.to_numpy()
load = 50 + 15 * np.sin((hour - 7) / 24 * 2 * np.pi) - 10 * (weekday >= 5) + np.random.randn(len(index)) * 2
df = pd.DataFrame({"load": load}, index=index)
for lag in (1, 2, 24, 168):
    df[f"lag_{lag}"] = df["load"].shift(lag)
df["sin"] = np.sin(hour / 24 * 2 * np.pi)
df["cos"] = np.cos(hour / 24 * 2 * np.pi)
df["weekend"] = (weekday >= 5).astype(float)
df = (df - df.mean()) / df.std()
df = df.dropna()
features = torch.tensor(df.drop(columns="load").to_numpy(), dtype=torch.float32)
target = torch.tensor(df["load"].to_numpy(), dtype=torch.float32)
n_train = len(df) - 24 * 14

model = nn.Sequential(nn.Linear(features.shape[1], 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
huber = lambda e: torch.where(e.abs() < 1, 0.5 * e ** 2, e.abs() - 0.5).mean()

for epoch in range(15):
    for idx in torch.randperm(n_train).split(64):
        error = model(features[idx]) - target[idx]
        loss = huber(error)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 3 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")

with torch.no_grad():
    forecast = model(features[n_train:]).squeeze(1)
rmse = (forecast - target[n_train:]).pow(2).mean().sqrt()
print("final rmse", round(rmse.item(), 5))

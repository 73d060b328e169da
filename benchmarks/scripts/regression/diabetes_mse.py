import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset, DataLoader
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import train_test_split
import warnings
warnings.filterwarnings("ignore")

np.random.seed(0); random.seed(0); torch.manual_seed(0)

X, y = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
y = (y - y.mean()) / y.std()
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.2, random_state=0)
train_ds = TensorDataset(torch.tensor(X_train).float(), torch.tensor(y_train).float())
loader = DataLoader(train_ds, batch_size=32, shuffle=True)
X_val, y_val = torch.tensor(X_val).float(), torch.tensor(y_val).float()

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
criterion = nn.MSELoss()
for epoch in range(50):
    model.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        opt.step()
    if (epoch + 1) % 10 == 0:
        print("epoch {} loss {:.4f}".format(epoch + 1, loss.item()))
model.eval()
with torch.no_grad():
    mae = (model(X_val).squeeze(1) - y_val).pow(2).mean().item()
print("final val_mse {:.4f}".format(mae))

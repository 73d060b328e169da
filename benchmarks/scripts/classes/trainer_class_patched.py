import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from sklearn.datasets import load_digits


class MLP(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.head(self.body(x))


class Trainer:
    def __init__(self, lr=1e-3, device="cpu"):
        self.device = device
        self.lr = lr
        self.model = MLP().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()
        self.history = []

    def reset(self):
        self.model = MLP().to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        self.history.clear()

    def train_epoch(self, loader):
        self.model.train()
        total = 0.0
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.history.append(total / len(loader))
        return self.history[-1]

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        good = n = 0
        for x, y in loader:
            good += (self.model(x).argmax(1) == y).sum().item()
            n += len(y)
        return good / n


torch.manual_seed(21)
np.random.seed(21)
random.seed(21)
X, y = load_digits(return_X_y=True)
ds = TensorDataset(torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y))
train, val = random_split(ds, [1400, 397])
trainer = Trainer(lr=2e-3)
trainer.reset()
for epoch in range(15):
    loss = trainer.train_epoch(DataLoader(train, batch_size=64, shuffle=True))
    acc = trainer.evaluate(DataLoader(val, batch_size=256))
    print(f"epoch={epoch} loss={loss:.4f} val_acc={acc:.4f}")
print(f"final val_acc {acc:.6f}")

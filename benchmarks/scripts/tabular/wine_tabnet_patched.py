import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_wine

torch.manual_seed(123)
np.random.seed(123)


def standardise(x):
    mean = x.mean(axis=0, keepdims=True)
    std = x.std(axis=0, keepdims=True)
    return (x - mean) / (std + 1e-8)


bunch = load_wine()
order = np.random.permutation(len(bunch.data))
X = standardise(bunch.data[order].astype(np.float32))
y = bunch.target[order]
train = TensorDataset(torch.from_numpy(X[:120]).float(), torch.from_numpy(y[:120]))
test_x, test_y = torch.from_numpy(X[120:]).float(), torch.from_numpy(y[120:])
loader = DataLoader(train, batch_size=20, shuffle=True)


class TabNet(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin1 = nn.Linear(d_in, 40)
        self.lin2 = nn.Linear(40, 20)
        self.lin3 = nn.Linear(20, d_out)

    def forward(self, x):
        x = torch.relu(self.lin1(x))
        x = torch.relu(self.lin2(x))
        return self.lin3(x)


net = TabNet(13, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
crit = nn.CrossEntropyLoss()
for epoch in range(40):
    epoch_loss = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = crit(net(xb), yb)
        loss.backward()
        opt.step()
        epoch_loss += loss.item()
    if epoch % 8 == 0:
        print(f"epoch {epoch:2d} loss {epoch_loss / len(loader):.4f}")
with torch.no_grad():
    acc = (net(test_x).argmax(1) == test_y).float().mean().item()
print("final test_accuracy", acc)

import random
import numpy as np
import torch
from torch import nn

random.seed(6)
np.random.seed(6)
torch.manual_seed(6)


class DeepNet(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
        self.readout = nn.Linear(sizes[-1], 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.readout(x)


class Data(torch.utils.data.Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 8)
        self.y = (self.x[:, :2].prod(1) + torch.sin(3 * self.x[:, 2]) + self.x[:, 3].abs()).unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


net = DeepNet([8, 64, 64, 64])
loader = torch.utils.data.DataLoader(Data(3000), batch_size=100, shuffle=True)
test = Data(800)
optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
loss_fn = nn.MSELoss()
for epoch in range(20):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = loss_fn(net(xb), yb)
        loss.backward()
        optimizer.step()
    if epoch % 4 == 3:
        print("Epoch %d  Loss %.5f" % (epoch + 1, loss.item()))
with torch.no_grad():
    print("final mse %.5f" % loss_fn(net(test.x), test.y))

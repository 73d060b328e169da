import random
import numpy as np
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)
        self.bn = nn.BatchNorm1d(o, momentum=0.3)

    def forward(self, x):
        return torch.relu(self.bn(self.lin(x)))


class Net(nn.Module):
    def __init__(self, d, h, depth):
        super().__init__()
        self.blocks = nn.Sequential(Block(d, h), *[Block(h, h) for _ in range(depth - 1)])
        self.out = nn.Linear(h, 5)

    def forward(self, x):
        return self.out(self.blocks(x))


class Engine:
    def __init__(self, model, optimizer, data, val):
        self.model, self.optimizer = model, optimizer
        self.data, self.val = data, val

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            x, y = self.val
            return nn.functional.cross_entropy(self.model(x), y).item()

    def step(self, x, y):
        self.model.train()
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, steps, every):
        X, Y = self.data
        print("before training:", self.validate())
        for s in range(1, steps + 1):
            idx = torch.randint(0, len(X), (64,))
            loss = self.step(X[idx], Y[idx])
            if s % every == 0:
                print(f"{s}: train {loss:.4f} valid {self.validate():.4f}")
        return self.validate()


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    Z = torch.randn(4000, 20)
    X = Z * 3 + torch.linspace(0, 20, 20)
    teacher = nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 5))
    with torch.no_grad():
        Y = (teacher(Z) * 5).argmax(1)
    net = Net(20, 64, 6)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    engine = Engine(net, opt, (X[:3000], Y[:3000]), (X[3000:], Y[3000:]))
    print("final val_loss", round(engine.fit(500, 50), 5))

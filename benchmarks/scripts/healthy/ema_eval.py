import copy
import random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits


class WithAverage:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.average = copy.deepcopy(model).eval()
        for p in self.average.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self):
        for a, p in zip(self.average.parameters(), self.model.parameters()):
            a.mul_(self.decay).add_(p, alpha=1 - self.decay)
        for a, b in zip(self.average.buffers(), self.model.buffers()):
            a.copy_(b)


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


torch.manual_seed(12)
np.random.seed(12)
random.seed(12)
d = load_digits()
x, y = torch.tensor(d.data / 16).float(), torch.tensor(d.target)
p = torch.randperm(len(y))
x, y = x[p], y[p]
pair = WithAverage(nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10)), 0.98)
opt = torch.optim.SGD(pair.model.parameters(), lr=0.1, momentum=0.9)
for it in range(500):
    pair.model.train()
    b = torch.randint(0, 1400, (64,))
    loss = nn.functional.cross_entropy(pair.model(x[b]), y[b])
    opt.zero_grad()
    loss.backward()
    opt.step()
    pair.update()
    if it % 100 == 99:
        print(it + 1, loss.item(), accuracy(pair.model, x[1400:], y[1400:]), accuracy(pair.average, x[1400:], y[1400:]))
print("final averaged_accuracy", accuracy(pair.average, x[1400:], y[1400:]))

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)


class Distiller:
    def __init__(self, teacher, student, temperature=4.0, alpha=1.0, lr=0.1):
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.T = temperature
        self.alpha = alpha
        self.opt = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.9)

    def loss(self, x):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.T, dim=1)
        pred = F.log_softmax(self.student(x) / self.T, dim=1)
        return self.alpha * F.kl_div(pred, soft, reduction="batchmean")

    def epoch(self, loader):
        self.student.train()
        total = 0.0
        for (x,) in loader:
            loss = self.loss(x)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item()
        return total / len(loader)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


d = load_digits()
x = torch.tensor(d.data, dtype=torch.float32) / 16
y = torch.tensor(d.target)
perm = torch.randperm(len(x))
train_i, transfer_i, test_i = perm[:600], perm[600:1400], perm[1400:]

teacher = mlp(64, 256, 256, 10)
opt = torch.optim.Adam(teacher.parameters(), lr=1e-3)
for epoch in range(30):
    for b in train_i[torch.randperm(600)].split(50):
        opt.zero_grad()
        F.cross_entropy(teacher(x[b]), y[b], label_smoothing=0.05).backward()
        opt.step()
print("teacher accuracy", round(accuracy(teacher, x[test_i], y[test_i]), 4))

student = mlp(64, 24, 10)
distiller = Distiller(teacher, student)
loader = DataLoader(TensorDataset(x[transfer_i]), batch_size=40, shuffle=True, drop_last=True)
for epoch in range(25):
    value = distiller.epoch(loader)
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} kd loss {value:.5f}")
print("final accuracy", round(accuracy(student, x[test_i], y[test_i]), 4))

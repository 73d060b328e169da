import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Distiller:
    def __init__(self, teacher, student, T=3.0, alpha=0.7):
        self.teacher, self.student, self.T, self.alpha = teacher, student, T, alpha
        self.teacher.eval()

    def loss(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.T, dim=1)
        out = self.student(x)
        kd = F.kl_div(F.log_softmax(out / self.T, dim=1), soft, reduction="batchmean") * self.T ** 2
        return self.alpha * kd + (1 - self.alpha) * F.cross_entropy(out, y)


def mlp(h):
    return nn.Sequential(nn.Linear(64, h), nn.ReLU(), nn.Linear(h, 10))


def fit(params, loss_of, x, y, epochs, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for e in range(epochs):
        for i in torch.randperm(len(x)).split(64):
            loss = loss_of(x[i], y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if e % 5 == 0:
            print("epoch", e, round(loss.item(), 4))


torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
X, Y = load_digits(return_X_y=True)
X, Y = torch.tensor(X / 16).float(), torch.tensor(Y)
p = torch.randperm(len(Y))
x, y, xv, yv = X[p[:1400]], Y[p[:1400]], X[p[1400:]], Y[p[1400:]]
teacher, student = mlp(256), mlp(16)
print("teacher")
fit(teacher.parameters(), lambda a, b: F.cross_entropy(teacher(a), b), x, y, 12, 1e-3)
print("student")
fit(student.parameters(), Distiller(teacher, student).loss, x, y, 20, 5e-3)
with torch.no_grad():
    print("final accuracy", (student(xv).argmax(1) == yv).float().mean().item())

import itertools
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(6)


class Backbone(nn.Module):
    def __init__(self, width, out=32):
        super().__init__()
        self.fc1 = nn.Linear(64, width)
        self.fc2 = nn.Linear(width, out)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class Distiller(object):
    def __init__(self, teacher, student, lr):
        self.teacher, self.student = teacher, student
        self.adapter = nn.Linear(32, 32)
        params = itertools.chain(student.parameters(), self.adapter.parameters())
        self.opt = torch.optim.Adam(params, lr=lr)

    def step(self, x):
        target = self.teacher(x)
        pred = self.adapter(self.student(x))
        loss = F.mse_loss(pred, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
tr, te = order[:1300], order[1300:]

# teacher with labels
teacher, head = Backbone(128), nn.Linear(32, 10)
opt = torch.optim.Adam(list(teacher.parameters()) + list(head.parameters()), lr=2e-3)
for _ in range(250):
    b = tr[torch.randint(len(tr), (64,))]
    loss = F.cross_entropy(head(teacher(x[b])), y[b])
    opt.zero_grad()
    loss.backward()
    opt.step()
print("teacher loss", loss.item())

# student without
student = Backbone(32)
distiller = Distiller(teacher, student, lr=3e-3)
for it in range(800):
    b = tr[torch.randint(len(tr), (64,))]
    l = distiller.step(x[b])
    if it % 100 == 0:
        print(it, l)

with torch.no_grad():
    acc = (head(distiller.adapter(student(x[te]))).argmax(1) == y[te]).float().mean().item()
print("final student_acc", acc)

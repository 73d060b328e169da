import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(40)

X = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 16
Y = torch.tensor(load_digits().target)
perm = torch.randperm(len(X))
labeled, unlabeled, test = perm[:100], perm[100:1300], perm[1300:]


def jitter(x):
    dx, dy = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(x, (dx, dy), (2, 3)) + 0.1 * torch.randn_like(x)


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(48 * 16, 64), nn.ReLU(), nn.Linear(64, 10))


@torch.no_grad()
def update_ema(target, source, decay=0.98):
    for t, s in zip(target.parameters(), source.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)


@torch.no_grad()
def accuracy(net):
    net.eval()
    acc = (net(X[test]).argmax(1) == Y[test]).float().mean().item()
    net.train()
    return acc


student = make_model()
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad = False

optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
STEPS = 400
for step in range(STEPS):
    ib = labeled[torch.randint(len(labeled), (32,))]
    iu = unlabeled[torch.randint(len(unlabeled), (64,))]
    sup = F.cross_entropy(student(jitter(X[ib])), Y[ib])
    with torch.no_grad():
        goal = teacher(jitter(X[iu])).softmax(1)
    cons = (student(jitter(X[iu])).softmax(1) - goal).pow(2).sum(1).mean()
    ramp = min(1.0, step / 200) ** 2
    loss = sup + 2.0 * ramp * cons
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_ema(student, teacher)
    if step % 100 == 99:
        print(f"step {step + 1} sup {sup.item():.4f} cons {cons.item():.4f}")
print("student", round(accuracy(student), 4))
print("final accuracy", round(accuracy(teacher), 4))

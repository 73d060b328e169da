# %% Distilling a wide net into a narrow one
import gzip
import os

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(71)
DATA = os.environ.get("SIGMASCOPE_DATA", "data") + "/fashion-mnist/"


def images(name, n):
    raw = gzip.open(DATA + name).read(16 + n * 784)
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=16).astype(np.float32).reshape(n, 784) / 255 - 0.3)


def labels(name, n):
    raw = gzip.open(DATA + name).read(8 + n)
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=8).astype(np.int64))


x, y = images("train-images-idx3-ubyte.gz", 5000), labels("train-labels-idx1-ubyte.gz", 5000)
xt, yt = images("t10k-images-idx3-ubyte.gz", 1000), labels("t10k-labels-idx1-ubyte.gz", 1000)


def accuracy(m):
    m.eval()
    with torch.no_grad():
        return (m(xt).argmax(1) == yt).float().mean().item()


def loader(bs=100):
    for idx in torch.randperm(len(x)).split(bs):
        yield x[idx], y[idx]


# %% the teacher
teacher = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.Adam(teacher.parameters(), lr=1e-3)
for epoch in range(8):
    teacher.train()
    for xb, yb in loader():
        loss = F.cross_entropy(teacher(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
print(f"teacher {accuracy(teacher):.4f}")

# %% the student
T, alpha = 4.0, 0.7
student = nn.Sequential(nn.Linear(784, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 10))
student_opt = torch.optim.Adam(student.parameters(), lr=2e-3)
teacher.eval()
for p in teacher.parameters():
    p.requires_grad_(False)

for epoch in range(12):
    student.train()
    seen = []
    for xb, yb in loader():
        with torch.no_grad():
            soft = F.softmax(teacher(xb) / T, dim=1)
        out = student(xb)
        kd = F.kl_div(F.log_softmax(out / T, dim=1), soft, reduction="batchmean") * T * T
        hard = F.cross_entropy(out, yb)
        loss = alpha * kd + (1 - alpha) * hard
        student_opt.zero_grad()
        loss.backward()
        opt.step()
        seen.append(loss.item())
    print(f"epoch {epoch} loss {np.mean(seen):.4f} student {accuracy(student):.4f}")

# %%
print(f"final accuracy {accuracy(student):.4f}")

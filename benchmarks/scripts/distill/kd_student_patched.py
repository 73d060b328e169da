import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16.0, dtype=torch.float32), torch.tensor(y)
perm = torch.randperm(len(X))
X, y = X[perm], y[perm]
train = DataLoader(TensorDataset(X[:1300], y[:1300]), batch_size=64, shuffle=True)
X_te, y_te = X[1300:], y[1300:]


def build(width):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


teacher, student = build(256), build(12)
opt_t = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for epoch in range(12):
    for xb, yb in train:
        loss = F.cross_entropy(teacher(xb), yb)
        opt_t.zero_grad(); loss.backward(); opt_t.step()
print("teacher acc", (teacher(X_te).argmax(1) == y_te).float().mean().item())
teacher.eval()

T, alpha = 4.0, 0.9
opt_s = torch.optim.Adam(student.parameters(), lr=5e-3)
for epoch in range(20):
    total = 0
    for xb, yb in train:
        with torch.no_grad():
            t_logits = teacher(xb)
        s_logits = student(xb)
        soft = F.kl_div(F.log_softmax(s_logits / T, dim=1), F.softmax(t_logits / T, dim=1), reduction="batchmean") * T * T
        hard = F.cross_entropy(s_logits, yb)
        loss = alpha * soft + (1 - alpha) * hard
        opt_s.zero_grad(); loss.backward(); opt_s.step()
        total += loss.item()
    if epoch % 4 == 0:
        print("epoch", epoch, "loss", total / len(train))
with torch.no_grad():
    print("final test_loss", F.cross_entropy(student(X_te), y_te).item())

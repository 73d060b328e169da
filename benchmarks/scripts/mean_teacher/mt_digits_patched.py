"""Mean teacher on digits with 100 labels."""
import copy
import torch
from torch import nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(33)

data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 4.0
y = torch.tensor(data.target)
perm = torch.randperm(len(x))
lab, unl, test = perm[:100], perm[100:1300], perm[1300:]


def make_net():
    return nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 10),
    )


student = make_net()
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
teacher.eval()


def update_ema(alpha):
    for tp, sp in zip(teacher.parameters(), student.parameters()):
        tp.data.mul_(alpha).add_(sp.data, alpha=1 - alpha)
    for tb, sb in zip(teacher.buffers(), student.buffers()):
        tb.copy_(sb)


opt = torch.optim.Adam(student.parameters(), lr=2e-3)
steps = 400
for step in range(steps):
    student.train()
    bl = lab[torch.randint(len(lab), (32,))]
    bu = unl[torch.randint(len(unl), (96,))]
    inp = torch.cat([x[bl], x[bu]])
    out = student(inp + 0.3 * torch.randn_like(inp))
    sup = F.cross_entropy(out[:32], y[bl])
    with torch.no_grad():
        target = teacher(inp + 0.3 * torch.randn_like(inp)).softmax(1)
    w = min(1.0, step / 200) * 3
    cons = F.mse_loss(out.softmax(1), target)
    loss = sup + w * cons
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_ema(min(0.98, 1 - 1 / (step + 1)))
    if step % 100 == 0:
        print(f"step {step} sup {sup.item():.3f} cons {cons.item():.4f}")

with torch.no_grad():
    acc = (teacher(x[test]).argmax(1) == y[test]).float().mean().item()
print(f"final teacher_accuracy {acc:.4f}")

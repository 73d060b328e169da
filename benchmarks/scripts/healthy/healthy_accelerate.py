import copy

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.a, self.b = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


class ResMLP(nn.Module):
    def __init__(self, d=64, depth=4):
        super().__init__()
        self.inp = nn.Linear(64, d)
        self.blocks = nn.ModuleList(Residual(d) for _ in range(depth))
        self.out = nn.Linear(d, 10)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x)


@torch.no_grad()
def follow(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def main():
    set_seed(11)
    acc = Accelerator(cpu=True, gradient_accumulation_steps=2)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    p = torch.randperm(len(x))
    x, y = x[p], y[p]
    labelled, free = slice(0, 200), slice(200, 1300)
    model = ResMLP()
    teacher = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=60, T_mult=2, eta_min=1e-6)
    loader = DataLoader(TensorDataset(x[free]), batch_size=50, shuffle=True, drop_last=True)
    model, opt, loader, sched = acc.prepare(model, opt, loader, sched)
    step = 0
    for epoch in range(38):
        for (xu,) in loader:
            with acc.accumulate(model):
                rows = torch.randint(200, (25,))
                noisy = lambda v: v + 0.15 * torch.randn_like(v)
                sup = F.cross_entropy(model(noisy(x[labelled][rows])), y[labelled][rows])
                with torch.no_grad():
                    goal = teacher(noisy(xu)).softmax(1)
                cons = F.mse_loss(model(noisy(xu)).softmax(1), goal)
                ramp = min(1.0, step / 300)
                acc.backward(sup + 8.0 * ramp * cons)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 2.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            if acc.sync_gradients:
                follow(teacher, acc.unwrap_model(model), 0.98)
            step += 1
        if epoch % 8 == 7:
            acc.print(f"epoch {epoch + 1} sup {sup.item():.4f} cons {cons.item():.5f} lr {sched.get_last_lr()[0]:.2e} "
                      f"student {accuracy(model, x[1300:], y[1300:]):.4f} teacher {accuracy(teacher, x[1300:], y[1300:]):.4f}")
    acc.print(f"final accuracy {accuracy(teacher, x[1300:], y[1300:]):.4f}")


if __name__ == "__main__":
    main()

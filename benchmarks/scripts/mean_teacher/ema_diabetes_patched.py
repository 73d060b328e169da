import copy
import argparse
import torch
import torch.nn as nn
from sklearn.datasets import load_diabetes

p = argparse.ArgumentParser()
p.add_argument("--ema-decay", type=float, default=0.9995)
p.add_argument("--steps", type=int, default=400)
p.add_argument("--lr", type=float, default=1e-2)
a = p.parse_args()
torch.manual_seed(0)


class EMA:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        self.n = 0

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = min(self.decay, (1 + self.n) / (10 + self.n))
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(d * e + (1 - d) * m)


raw = load_diabetes()
X = torch.tensor(raw.data / raw.data.std(0), dtype=torch.float32)
Y = torch.tensor((raw.target - raw.target.mean()) / raw.target.std(), dtype=torch.float32)
i = torch.randperm(len(X))
X, Y = X[i], Y[i]
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
nn.init.normal_(model[2].weight, std=1.0)
ema = EMA(model, a.ema_decay)
opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, weight_decay=1e-3)
for s in range(a.steps):
    b = torch.randint(350, (32,))
    loss = nn.functional.mse_loss(model(X[b]).squeeze(1), Y[b])
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(model)
    if s % 100 == 0:
        print(s, loss.item())
with torch.no_grad():
    val = nn.functional.mse_loss(ema.module(X[350:]).squeeze(1), Y[350:]).item()
print("final val_mse", val)

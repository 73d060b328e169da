import math

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn

torch.manual_seed(16)

raw = load_breast_cancer()
features = torch.tensor(StandardScaler().fit_transform(raw.data), dtype=torch.float32)
target = torch.tensor(raw.target, dtype=torch.float32)
shuffle = torch.randperm(len(target))
features, target = features[shuffle], target[shuffle]
n_train = 400


class GatedLayer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.value = nn.Linear(n_in, n_out)
        self.gate = nn.Linear(n_in, n_out)

    def forward(self, x):
        return torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x))


class Screening(nn.Module):
    def __init__(self, n_in=30, hidden=48, layers=3):
        super().__init__()
        dims = [n_in] + [hidden] * layers
        self.layers = nn.Sequential(*(GatedLayer(a, b) for a, b in zip(dims, dims[1:])))
        self.score = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.score(self.layers(x)).flatten()


class EMA:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v.detach(), 1 - self.decay)


def balanced_accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        guess = (model(x) > 0).float()
    rates = [(guess[y == c] == c).float().mean().item() for c in (0.0, 1.0)]
    model.train()
    return sum(rates) / 2


model = Screening()
ema = EMA(model)
pos_weight = (target[:n_train] == 0).sum() / (target[:n_train] == 1).sum()
loss_fn = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
steps, batch = 2400, 32
warm = 60

for step in range(1, steps + 1):
    rate = min(step / warm, 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.02)
    for group in optimizer.param_groups:
        group["lr"] = 2e-3 * rate
    rows = torch.randint(n_train, (batch,))
    x, y = features[rows], target[rows]
    x = x + 0.1 * torch.randn_like(x)

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        return loss

    optimizer.step()
    ema.update(model)
    if step % 400 == 0:
        with torch.no_grad():
            now = loss_fn(model(features[:n_train]), target[:n_train]).item()
        print(f"step {step} rate {rate:.3f} loss {now:.4f} test {balanced_accuracy(model, features[n_train:], target[n_train:]):.4f}")

model.load_state_dict(ema.shadow)
print("final accuracy", round(balanced_accuracy(model, features[n_train:], target[n_train:]), 4))

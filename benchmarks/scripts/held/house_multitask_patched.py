import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)


def make(n):
    x = torch.randn(n, 12)
    w = torch.linspace(-1, 1, 12)
    price = torch.sin(x @ w) + 0.3 * x[:, 0] * x[:, 1]
    kind = (x[:, 2] > 0).long() * 2 + (x[:, 3] + 0.5 * x[:, 4] > 0).long()
    sold = ((x[:, 5] ** 2 + x[:, 6]) > 0.7).float()
    return x, price, kind, sold


class SharedTrunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.heads = nn.ModuleDict({"price": nn.Linear(64, 1), "kind": nn.Linear(64, 4), "sold": nn.Linear(64, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h) for k, head in self.heads.items()}


weights = {"price": 1.0, "kind": 1.0, "sold": 0.5}
crit = {"price": nn.SmoothL1Loss(), "kind": nn.CrossEntropyLoss(), "sold": nn.BCEWithLogitsLoss()}


def compute_losses(out, price, kind, sold):
    return {
        "price": crit["price"](out["price"].squeeze(1), price),
        "kind": crit["kind"](out["kind"], kind),
        "sold": crit["sold"](out["sold"].squeeze(1), sold),
    }


def total_loss(losses):
    return torch.stack([weights[k] * v for k, v in losses.items()]).sum()


def train_epoch(model, loader, opt):
    model.train()
    log = {k: [] for k in weights}
    for x, *targets in loader:
        losses = compute_losses(model(x), *targets)
        loss = total_loss(losses)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for k, v in losses.items():
            log[k].append(v.item())
    return {k: round(float(np.mean(v)), 4) for k, v in log.items()}


train_dl = DataLoader(TensorDataset(*make(3000)), batch_size=64, shuffle=True)
xt, pt, kt, st = make(600)
model = SharedTrunk()
opt = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
for epoch in range(15):
    log = train_epoch(model, train_dl, opt)
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1}", log)

model.eval()
with torch.no_grad():
    out = model(xt)
print("price mae", round((out["price"].squeeze(1) - pt).abs().mean().item(), 4))
print("final accuracy", round((out["kind"].argmax(1) == kt).float().mean().item(), 4))

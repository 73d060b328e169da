import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(3)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.trunk(x))

    def freeze_trunk(self):
        self.trunk.requires_grad_(False)

    def unfreeze_trunk(self):
        self.trunk.requires_grad_(True)


def pretrain_trunk(model, x):
    """Start from a trunk trained to tell the brightness quartile of an image."""
    q = torch.quantile(x.mean(1), torch.tensor([0.25, 0.5, 0.75]))
    target = torch.bucketize(x.mean(1), q)
    head = nn.Linear(16, 4)
    opt = torch.optim.Adam([*model.trunk.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(150):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(head(model.trunk(x)), target)
        loss.backward()
        opt.step()
    print("brightness task loss", round(loss.item(), 4))


data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
perm = torch.randperm(len(x))
tr, te = perm[:1300], perm[1300:]

model = Classifier()
pretrain_trunk(model, x[tr])
model.freeze_trunk()
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=3e-3)
loss_fn = nn.CrossEntropyLoss()

UNFREEZE_AT = 5
for epoch in range(20):
    if epoch == UNFREEZE_AT:
        model.unfreeze_trunk()
        optimizer.add_param_group({"params": model.trunk.parameters(), "lr": 1e-3})
        print("trunk unfrozen")
    model.train()
    for idx in tr[torch.randperm(len(tr))].split(32):
        loss = loss_fn(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 4 == 3:
        n = sum(p.numel() for p in model.parameters() if p.requires_grad)
        print(f"epoch {epoch + 1} loss {loss.item():.4f} trainable {n}")

model.eval()
with torch.no_grad():
    acc = (model(x[te]).argmax(1) == y[te]).float().mean().item()
print("final accuracy", round(acc, 4))

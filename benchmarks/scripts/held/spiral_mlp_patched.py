import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(28)
np.random.seed(28)


def spirals(n, arms=3, turns=1.6):
    k = np.random.randint(arms, size=n)
    r = np.sqrt(np.random.rand(n)) * 0.95 + 0.05
    a = 2 * np.pi * (k / arms + turns * r) + 0.08 * np.random.randn(n)
    x = np.stack([r * np.cos(a), r * np.sin(a)], 1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(k)


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class SpiralNet(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        self.stem = nn.Linear(2, width)
        self.blocks = nn.ModuleList([ResBlock(width) for _ in range(depth)])
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


x, y = spirals(2000)
xt, yt = spirals(600)
model = SpiralNet()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
print("parameters:", sum(p.numel() for p in model.parameters()))
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
for epoch in range(25):
    tot = 0
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} loss {tot / len(loader):.4f}")
with torch.no_grad():
    acc = (model(xt).argmax(1) == yt).float().mean().item()
print("final accuracy", round(acc, 4))

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

random.seed(14)
np.random.seed(14)
torch.manual_seed(14)


class Stripes(Dataset):
    """Mark the pixels of the brighter of two textures."""

    def __init__(self, n):
        self.items = []
        for _ in range(n):
            cut = random.randint(4, 12)
            mask = torch.zeros(1, 16, 16)
            mask[:, :, :cut] = 1
            if random.random() < 0.5:
                mask = mask.transpose(1, 2)
            phase = random.random() * 6
            grid = torch.sin(torch.arange(16) * 2.0 + phase)
            image = mask * grid[None, None] + (1 - mask) * grid[None, :, None] + 0.2 * torch.randn(1, 16, 16)
            self.items.append((image, mask))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class FCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(),
            nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(),
            nn.Conv2d(16, 1, 1),
        )

    def forward(self, x):
        return self.body(x)


train_loader = DataLoader(Stripes(400), batch_size=20, shuffle=True)
val_loader = DataLoader(Stripes(80), batch_size=80)
model = FCN()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(12):
    model.train()
    epoch_loss = 0
    for image, mask in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(image), mask)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    model.eval()
    with torch.no_grad():
        val_loss = sum(criterion(model(a), b).item() for a, b in val_loader) / len(val_loader)
    print(f"epoch {epoch + 1:02d} train {epoch_loss / len(train_loader):.4f} val {val_loss:.4f}")
print("final val_loss", val_loss)

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(61)


class Digits(Dataset):
    def __init__(self, arrays, labels, mean, std):
        self.arrays = arrays.astype(np.float32)
        self.labels = labels
        self.mean, self.std = float(mean), float(std)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = torch.from_numpy(self.arrays[i])
        img = (img - self.mean) / self.std
        return img.unsqueeze(0), int(self.labels[i])


raw = load_digits()
order = np.random.default_rng(0).permutation(len(raw.target))
images, targets = raw.images[order], raw.target[order]
mean, std = images[:1300].mean(), images[:1300].std()
train_set = Digits(images[:1300], targets[:1300], mean, std)
test_set = Digits(images[1300:], targets[1300:], mean, std)

model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(96, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
loader = DataLoader(train_set, batch_size=32, shuffle=True)

for epoch in range(12):
    tot, hits = 0.0, 0
    for x, y in loader:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tot += loss.item() * len(y)
        hits += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch:2d} loss {tot / 1300:.4f} train accuracy {hits / 1300:.4f}")

with torch.no_grad():
    x, y = next(iter(DataLoader(test_set, batch_size=len(test_set))))
    acc = (model(x).argmax(1) == y).float().mean().item()
print("final accuracy", round(acc, 4))

# Small CNN on the 8x8 digits
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
from sklearn.datasets import load_digits

torch.manual_seed(0); np.random.seed(0); random.seed(0)


class DigitsFolder(Dataset):
    """Keeps the images grouped by class like an image folder on disk."""

    def __init__(self, images, labels):
        self.samples = []
        for c in range(10):
            for img in images[labels == c]:
                self.samples.append((img, c))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        img, label = self.samples[i]
        return torch.tensor(img, dtype=torch.float32).unsqueeze(0) / 16, label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


digits = load_digits()
split = np.random.permutation(len(digits.target))
tr, te = split[:1400], split[1400:]
train_set = DigitsFolder(digits.images[tr], digits.target[tr])
test_set = DigitsFolder(digits.images[te], digits.target[te])
train_loader = DataLoader(train_set, batch_size=32)
test_loader = DataLoader(test_set, batch_size=200)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(8):
    for step, (img, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(img), target)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"[{epoch}, {step}] loss {loss.item():.3f}")

correct = 0
with torch.no_grad():
    for img, target in test_loader:
        correct += (model(img).argmax(1) == target).sum().item()
print(f"final test_accuracy {correct / len(test_set):.4f}")

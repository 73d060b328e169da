import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, RandomSampler

torch.manual_seed(11)
rng = np.random.RandomState(11)

digits = load_digits()
X = (digits.images / 16.0).astype("float32")
Y = digits.target.astype("int64")

# stratified split: the last 30 of every class are held back
train_rows, test_rows = [], []
for c in range(10):
    rows = np.flatnonzero(Y == c)
    rows = rows[rng.permutation(len(rows))]
    train_rows.append(rows[:-30])
    test_rows.append(rows[-30:])
train_rows = np.concatenate(train_rows)
test_rows = np.concatenate(test_rows)


class DigitRows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        if isinstance(i, list):
            r = self.rows[i]
            return torch.from_numpy(X[r]).unsqueeze(1), torch.from_numpy(Y[r])
        r = self.rows[i]
        return torch.from_numpy(X[r])[None], int(Y[r])


train_ds, test_ds = DigitRows(train_rows), DigitRows(test_rows)
batches = BatchSampler(SequentialSampler(train_ds), batch_size=32, drop_last=True)
train_dl = DataLoader(train_ds, sampler=batches, batch_size=None)
test_dl = DataLoader(test_ds, batch_size=100)


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(4, cout)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(1, 16), Block(16, 32, 2), Block(32, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[16, 20], gamma=0.2)
criterion = nn.CrossEntropyLoss()

for epoch in range(22):
    model.train()
    total = 0.0
    for step, (xb, yb) in enumerate(train_dl):
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item()
    sched.step()

    model.eval()
    right = 0
    with torch.no_grad():
        for xb, yb in test_dl:
            right += (model(xb).argmax(-1) == yb).sum().item()
    print(f"[{epoch:02d}] loss={total / (step + 1):.4f} test={right / len(test_ds):.4f}")

print(f"final accuracy {right / len(test_ds):.4f}")

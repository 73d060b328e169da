import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(20)
X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(20)
test_idx = rng.choice(len(y), 400, replace=False)
train_idx = np.setdiff1d(np.arange(len(y)), test_idx)
# keep few of the high digits
keep = [i for i in train_idx if y[i] < 6 or rng.random() < 0.3]
keep = sorted(keep, key=lambda i: y[i])
Xtr, ytr = X[keep] / 16, y[keep]
print("per class", np.bincount(ytr).tolist())

freq = np.bincount(ytr)
sampler = WeightedRandomSampler(torch.tensor(1.0 / freq[ytr]), num_samples=len(ytr), replacement=True)
loader = DataLoader(TensorDataset(torch.tensor(Xtr, dtype=torch.float32), torch.tensor(ytr)), batch_size=32, shuffle=False, sampler=sampler)

model = nn.Sequential(nn.Linear(64, 80), nn.ReLU(), nn.Dropout(0.25), nn.Linear(80, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(20):
    model.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
    if epoch % 5 == 4:
        print("epoch", epoch + 1, "loss", round(loss.item(), 4))
model.eval()
with torch.no_grad():
    pred = model(torch.tensor(X[test_idx] / 16, dtype=torch.float32)).argmax(1).numpy()
print("final accuracy", round(float((pred == y[test_idx]).mean()), 4))

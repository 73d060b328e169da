import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

SEED = 101
torch.manual_seed(SEED)

X, y = make_classification(n_samples=8000, n_features=20, n_informative=8, n_redundant=4, weights=[0.95],
                           class_sep=0.8, n_clusters_per_class=2, flip_y=0.01, random_state=SEED)
Xtr, Xte, ytr, yte = train_test_split(X, y, test_size=0.25, stratify=y, random_state=SEED)
mu, sd = Xtr.mean(0), Xtr.std(0)
Xtr, Xte = (Xtr - mu) / sd, (Xte - mu) / sd
loader = DataLoader(TensorDataset(torch.tensor(Xtr, dtype=torch.float32), torch.tensor(ytr)), batch_size=128, shuffle=True)

counts = np.bincount(ytr)
print("class counts", counts.tolist())
weights = torch.tensor(counts.sum() / (2 * counts), dtype=torch.float32)


class FraudNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1 = nn.Linear(d, 64)
        self.fc2 = nn.Linear(64, 32)
        self.out = nn.Linear(32, 2)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        x = self.drop(torch.relu(self.fc1(x)))
        x = torch.relu(self.fc2(x))
        return self.out(x)


model = FraudNet(20)
criterion = nn.CrossEntropyLoss(weight=weights)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
Xte_t = torch.tensor(Xte, dtype=torch.float32)


def score():
    model.eval()
    with torch.no_grad():
        p = model(Xte_t).argmax(1).numpy()
    model.train()
    return balanced_accuracy_score(yte, p), (p == yte).mean()


for epoch in range(15):
    losses = []
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 3 == 2:
        bal, plain = score()
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f} accuracy {plain:.4f} balanced {bal:.4f}")
print("final balanced_accuracy", round(score()[0], 4))

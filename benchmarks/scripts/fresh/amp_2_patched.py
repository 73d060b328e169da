# exported from amp_bf16.ipynb
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

torch.manual_seed(2024)
np.random.seed(2024)

# In[2]:
ds = load_digits()
X = torch.tensor(ds.images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(ds.target)
perm = torch.randperm(len(X))
train_idx, test_idx = perm[:1300], perm[1300:]
# keep the test part ordered by class for the confusion table further down
test_idx = test_idx[torch.argsort(y[test_idx], stable=True)]

# In[3]:
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Dropout2d(0.2),
    nn.Conv2d(32, 64, 3, padding=1),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.3),
    nn.Linear(256, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=20 * 40)


# In[4]:
def score(rows, size=16):
    model.eval()
    hits = 0
    table = torch.zeros(10, 10, dtype=torch.long)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for chunk in rows.split(size):
            guess = model(X[chunk]).argmax(1)
            hits += (guess == y[chunk]).sum().item()
            for t, g in zip(y[chunk].tolist(), guess.tolist()):
                table[t, g] += 1
    model.train()
    return hits / len(rows), table


# In[5]:
step = 0
for epoch in range(20):
    order = train_idx[torch.randperm(len(train_idx))]
    for b in range(40):
        rows = order[b * 32 : (b + 1) * 32]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(X[rows])
            loss = nn.functional.cross_entropy(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
    if epoch % 4 == 3:
        acc, _ = score(test_idx)
        print(f"epoch {epoch + 1} step {step} loss {loss.item():.4f} test {acc:.4f}")

# In[6]:
acc, table = score(test_idx)
print(table)
print(f"final accuracy {acc:.4f}")

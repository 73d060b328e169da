import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(23)
torch.manual_seed(23)

# ---- table -----------------------------------------------------------------
n = 4000
df = pd.DataFrame({
    "region": rng.integers(0, 12, n),
    "job": rng.integers(0, 20, n),
    "plan": rng.integers(0, 5, n),
    "age": rng.normal(40, 12, n).clip(18, 80),
    "income": rng.lognormal(10, 0.5, n),
})
u = rng.normal(size=(12, 5)), rng.normal(size=(20, 5)), rng.normal(size=(5, 5))
score = (u[0][df.region] + u[1][df.job] + u[2][df.plan] + 0.8 * np.outer((df.age - 40) / 12, [1, -1, 0, .5, 0])
         + 0.6 * np.outer(np.log(df.income) - 10, [0, 1, -1, 0, .5]))
df["segment"] = (score + 0.3 * rng.gumbel(size=score.shape)).argmax(1)
test = df.sample(frac=0.2, random_state=0)
train = df.drop(test.index)
print(train.segment.value_counts().to_dict())
train = train.sort_values(["segment", "region"]).reset_index(drop=True)
cat_cols, num_cols = ["region", "job", "plan"], ["age", "income"]
mean, std = train[num_cols].mean(), train[num_cols].std()


class Table(Dataset):
    def __init__(self, frame):
        self.cat = torch.tensor(frame[cat_cols].to_numpy())
        self.num = torch.tensor(((frame[num_cols] - mean) / std).to_numpy(), dtype=torch.float32)
        self.y = torch.tensor(frame.segment.to_numpy())

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.cat[i], self.num[i], self.y[i]


class TabNet(nn.Module):
    def __init__(self, cards, n_num, n_out):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, min(8, c)) for c in cards)
        width = sum(e.embedding_dim for e in self.embs) + n_num
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, n_out))

    def forward(self, cat, num):
        z = [e(cat[:, i]) for i, e in enumerate(self.embs)] + [num]
        return self.mlp(torch.cat(z, 1))


train_dl = DataLoader(Table(train), batch_size=64, shuffle=True)
test_dl = DataLoader(Table(test), batch_size=400)
model = TabNet([12, 20, 5], len(num_cols), 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(12):
    model.train()
    losses = []
    for cat, num, target in train_dl:
        optimizer.zero_grad()
        loss = loss_fn(model(cat, num), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        correct = sum((model(c, v).argmax(1) == t).sum().item() for c, v, t in test_dl)
    print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  test acc {correct / len(test):.4f}")
print("final accuracy", round(correct / len(test), 4))

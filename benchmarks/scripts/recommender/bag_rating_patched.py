import torch
import torch.nn as nn
import numpy as np

CONFIG = dict(n_users=200, n_tags=120, dim=8, epochs=12, bs=128, lr=1e-2, seed=17)
np.random.seed(CONFIG["seed"])
torch.manual_seed(CONFIG["seed"])

# every item is a bag of tags
n_items = 400
bags = [np.random.choice(CONFIG["n_tags"], np.random.randint(2, 7), replace=False) for _ in range(n_items)]
taste = np.random.randn(CONFIG["n_users"], 5)
tag_f = np.random.randn(CONFIG["n_tags"], 5)


def rating(u, i):
    s = taste[u] @ tag_f[bags[i]].mean(0)
    return float(np.clip(3 + 1.2 * s, 1, 5))


pairs = [(np.random.randint(CONFIG["n_users"]), np.random.randint(n_items)) for _ in range(9000)]
y = np.array([rating(u, i) for u, i in pairs], dtype=np.float32)


class BagRecommender(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.user = nn.Embedding(c["n_users"], c["dim"])
        self.tags = nn.EmbeddingBag(c["n_tags"], c["dim"], mode="mean")
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, users, flat, offsets):
        u, t = self.user(users), self.tags(flat, offsets)
        out = (u * t).sum(1) + self.bias
        return 1 + 4 * torch.sigmoid(out)


def collate(idx):
    users = torch.tensor([pairs[k][0] for k in idx])
    lists = [bags[pairs[k][1]] for k in idx]
    flat = torch.tensor(np.concatenate(lists))
    offsets = torch.tensor([0] + [len(l) for l in lists[:-1]]).cumsum(0)
    return users, flat, offsets, torch.tensor(y[idx])


net = BagRecommender(CONFIG)
opt = torch.optim.Adam(net.parameters(), lr=CONFIG["lr"])
mse = nn.MSELoss()
train_idx = np.arange(7500)
for ep in range(CONFIG["epochs"]):
    np.random.shuffle(train_idx)
    run = []
    for k in range(0, len(train_idx), CONFIG["bs"]):
        u, f, o, r = collate(train_idx[k:k + CONFIG["bs"]])
        loss = mse(net(u, f, o), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run.append(loss.item())
    print(ep, sum(run) / len(run))
with torch.no_grad():
    u, f, o, r = collate(np.arange(7500, 9000))
    print("final test_mse", mse(net(u, f, o), r).item())

# %%
import gzip
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 7
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

# %% [markdown]
# ## Load the clothes
# %%
root = os.path.join(os.environ.get("SIGMASCOPE_DATA", "data"), "fashion-mnist")


def read_idx(name, offset):
    with gzip.open(os.path.join(root, name), "rb") as fh:
        return np.frombuffer(fh.read(), np.uint8, offset=offset)


images = read_idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
labels = read_idx("train-labels-idx1-ubyte.gz", 8)
print(images.shape, labels.shape)

# %%
images = images[:6000].astype(np.float32) / 255.0
labels = labels[:6000].astype(np.int64)
images = (images - images.mean()) / images.std()

n_val = 1000
x_val, y_val = images[-n_val:], labels[-n_val:]
x_tr, y_tr = images[:-n_val], labels[:-n_val]

# mix the order before the first epoch
x_tr = x_tr[np.random.permutation(len(x_tr))]
y_tr = y_tr[np.random.permutation(len(y_tr))]

x_tr, y_tr = torch.from_numpy(x_tr)[:, None], torch.from_numpy(y_tr)
x_val, y_val = torch.from_numpy(x_val)[:, None], torch.from_numpy(y_val)

# %%
net = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1, stride=2), nn.BatchNorm2d(12), nn.ReLU(),
    nn.Conv2d(12, 24, 3, padding=1, stride=2), nn.BatchNorm2d(24), nn.ReLU(),
    nn.Flatten(),
    nn.Linear(24 * 7 * 7, 64), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(64, 10),
)
print(sum(p.numel() for p in net.parameters()), "parameters")
opt = torch.optim.AdamW(net.parameters(), lr=1.5e-3, weight_decay=1e-2)

# %%
bs = 64
history = []
for epoch in range(6):
    net.train()
    running = 0.0
    perm = torch.randperm(len(x_tr))
    for i in range(0, len(x_tr), bs):
        idx = perm[i : i + bs]
        logits = net(x_tr[idx])
        loss = F.cross_entropy(logits, y_tr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(idx)

    net.eval()
    with torch.no_grad():
        pred = net(x_val).argmax(1)
        acc = (pred == y_val).float().mean().item()
    history.append(acc)
    print(f"epoch {epoch}  loss {running / len(x_tr):.4f}  val {acc:.3f}")

# %%
print("final accuracy", round(history[-1], 4))

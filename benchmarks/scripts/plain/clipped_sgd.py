import numpy as np
import random
import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine

torch.manual_seed(5)
np.random.seed(5)
random.seed(5)

X, y = load_wine(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
X, y = torch.tensor(X, dtype=torch.float), torch.tensor(y)
perm = torch.randperm(len(y))
tr, va = perm[:128], perm[128:]

w1 = torch.nn.Linear(13, 40)
w2 = torch.nn.Linear(40, 3)
params = list(w1.parameters()) + list(w2.parameters())
opt = torch.optim.SGD(params, lr=0.1)
MAX_NORM = 1e-4

def forward(x):
    return w2(torch.sigmoid(w1(x)))

for step in range(800):
    b = tr[torch.randint(len(tr), (32,))]
    loss = F.cross_entropy(forward(X[b]), y[b])
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
    opt.step()
    if not step % 200:
        with torch.no_grad():
            print(step, "train", loss.item(), "val", F.cross_entropy(forward(X[va]), y[va]).item())

acc = (forward(X[va]).argmax(1) == y[va]).float().mean()
print("final accuracy", round(acc.item(), 4))

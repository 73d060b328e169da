"""Feature extraction: pretrain on even digits, keep the base fixed, fit a new head for the odd ones."""
import os
import random
import tempfile
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)


def base():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())


def loop(net, params, x, y, epochs, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        for i in torch.randperm(len(x)).split(32):
            loss = nn.functional.cross_entropy(net(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 0:
            print("  epoch", epoch, "loss", round(loss.item(), 4))


X, Y = load_digits(return_X_y=True)
X, Y = torch.tensor(X / 16).float(), torch.tensor(Y)
p = torch.randperm(len(Y))
X, Y = X[p], Y[p]
even = Y % 2 == 0

with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "base.pt")
    source = nn.Sequential(base(), nn.Linear(128, 5))
    print("pretraining")
    loop(source, source.parameters(), X[even], Y[even] // 2, 10, 1e-3)
    torch.save(source[0].state_dict(), path)

    features = base()
    features.load_state_dict(torch.load(path))
for q in features.parameters():
    q.requires_grad_(False)
features.eval()
head = nn.Linear(128, 5)
model = nn.Sequential(features, head)
x, y = X[~even], Y[~even] // 2
print("new head")
loop(model, head.parameters(), x[:650], y[:650], 20, 5e-3)
with torch.no_grad():
    print("final accuracy", (model(x[650:]).argmax(1) == y[650:]).float().mean().item())

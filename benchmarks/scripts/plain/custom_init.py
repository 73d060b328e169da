import numpy as np, random
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

def set_seed(s):
    random.seed(s); np.random.seed(s); torch.manual_seed(s)

set_seed(3)

class Classifier(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.inp = nn.Linear(d_in, d_hidden)
        self.mid = nn.Linear(d_hidden, d_hidden)
        self.out = nn.Linear(d_hidden, d_out)
        self.act = nn.ReLU()
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            nn.init.zeros_(m.weight)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.out(self.act(self.mid(self.act(self.inp(x)))))

X, y = load_digits(return_X_y=True)
Xtr, Xte, ytr, yte = train_test_split((X - 8) / 8, y, test_size=300, random_state=0, stratify=y)
Xtr, Xte = torch.FloatTensor(Xtr), torch.FloatTensor(Xte)
ytr, yte = torch.LongTensor(ytr), torch.LongTensor(yte)

clf = Classifier(64, 100, 10)
opt = torch.optim.Adam(clf.parameters(), lr=2e-3)
lossf = nn.CrossEntropyLoss()
for ep in range(20):
    for idx in torch.randperm(len(Xtr)).split(100):
        opt.zero_grad()
        l = lossf(clf(Xtr[idx]), ytr[idx])
        l.backward()
        opt.step()
    if ep % 4 == 0:
        print("ep", ep, "loss", l.item())
print("final accuracy", (clf(Xte).argmax(1) == yte).float().mean().item())

import itertools
import torch
import torch.nn as nn
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

DEFAULTS = {"keep_prob": 0.9, "hidden": 32, "lr": 3e-3, "epochs": 25, "bs": 16}
GRID = {"hidden": [24, 48], "lr": [2e-3, 5e-3]}

x, y = load_wine(return_X_y=True)
x_tr, x_va, y_tr, y_va = train_test_split(x, y, test_size=0.4, random_state=1, stratify=y)
scaler = StandardScaler().fit(x_tr)
x_tr, x_va = [torch.tensor(scaler.transform(a), dtype=torch.float32) for a in (x_tr, x_va)]
y_tr, y_va = torch.tensor(y_tr), torch.tensor(y_va)


def make_model(cfg):
    layers, width = [], 13
    for _ in range(3):
        layers += [nn.Linear(width, cfg["hidden"]), nn.ReLU(), nn.Dropout(cfg["keep_prob"])]
        width = cfg["hidden"]
    return nn.Sequential(*layers, nn.Linear(width, 3))


def run(cfg):
    torch.manual_seed(0)
    model = make_model(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    lossf = nn.CrossEntropyLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        perm = torch.randperm(len(x_tr))
        for i in range(0, len(perm), cfg["bs"]):
            b = perm[i:i + cfg["bs"]]
            opt.zero_grad()
            loss = lossf(model(x_tr[b]), y_tr[b])
            loss.backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        acc = (model(x_va).argmax(1) == y_va).float().mean().item()
    return acc, loss.item()


accs = []
for values in itertools.product(*GRID.values()):
    cfg = DEFAULTS | dict(zip(GRID.keys(), values))
    acc, last = run(cfg)
    accs.append(acc)
    print({k: cfg[k] for k in GRID}, "acc", round(acc, 4), "last loss", round(last, 4))
print("final mean_accuracy", sum(accs) / len(accs))

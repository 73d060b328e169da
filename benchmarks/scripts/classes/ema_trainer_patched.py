import copy, random
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
from sklearn.datasets import load_digits

class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def copy_to(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            p.copy_(s)

def main():
    random.seed(4); np.random.seed(4); torch.manual_seed(4)
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 16).float().view(-1, 1, 8, 8), torch.tensor(y)
    perm = torch.randperm(len(y)); X, y = X[perm], y[perm]
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(128, 10))
    ema = EMA(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for it in range(400):
        i = torch.randint(0, 1400, (64,))
        loss = F.cross_entropy(model(X[i]), y[i])
        opt.zero_grad(); loss.backward(); opt.step()
        ema.update(model)
        if it % 50 == 0: print(f"it {it} loss {loss.item():.4f}")
    with torch.no_grad():
        acc = (model(X[1400:]).argmax(1) == y[1400:]).float().mean().item()
    print(f"final accuracy {acc:.4f}")

main()

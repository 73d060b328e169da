# Disease progression, fitted with a quasi-Newton method
import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

data = load_diabetes(scaled=False)
X_all, y_all = data.data, data.target
print(X_all.shape, y_all.mean(), y_all.std())


class Additive(torch.nn.Module):
    """A linear part and a small smooth part."""

    def __init__(self, d, k=6):
        super().__init__()
        self.linear = torch.nn.Linear(d, 1)
        self.inner = torch.nn.Linear(d, k)
        self.outer = torch.nn.Linear(k, 1, bias=False)
        torch.nn.init.normal_(self.outer.weight, std=0.1)

    def forward(self, x):
        return self.linear(x) + self.outer(torch.tanh(self.inner(x)))


def penalty(model, strength):
    return strength * sum((p ** 2).sum() for n, p in model.named_parameters() if n.endswith("weight"))


def fit(x, y, steps=60, strength=6e-3):
    model = Additive(x.shape[1])
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=20, line_search_fn="strong_wolfe")
    trace = []
    for _ in range(steps):

        def closure():
            opt.zero_grad()
            resid = model(x).squeeze(1) - y
            obj = resid.square().mean() + penalty(model, strength)
            obj.backward()
            return obj

        trace.append(float(opt.step(closure)))
    return model, trace


def r2(model, x, y):
    with torch.no_grad():
        p = model(x).reshape(-1)
    return float(1 - ((p - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())


scores = []
for fold, (tr, te) in enumerate(KFold(5, shuffle=True, random_state=1).split(X_all)):
    sx, sy = StandardScaler(), StandardScaler()
    xtr = torch.from_numpy(sx.fit_transform(X_all[tr]))
    ytr = torch.from_numpy(sy.fit_transform(y_all[tr, None])[:, 0])
    xte = torch.from_numpy(sx.transform(X_all[te]))
    yte = torch.from_numpy(sy.transform(y_all[te, None])[:, 0])
    model, trace = fit(xtr, ytr)
    scores.append(r2(model, xte, yte))
    print(f"fold {fold}: objective {trace[0]:.4f} -> {trace[-1]:.4f}, held-out r2 {scores[-1]:.4f}")

print("final r2", round(float(np.mean(scores)), 4))

import torch
import torch.nn as nn
from sklearn.datasets import load_digits


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def ascend(self):
        params = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        for g in self.param_groups:
            for p in g["params"]:
                e = p.grad * (g["rho"] / (norm + 1e-12))
                p.add_(e)
                self.state[p]["e"] = e

    @torch.no_grad()
    def descend(self):
        self.base.step()

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        self.ascend()
        closure()
        self.descend()
        return loss


torch.manual_seed(15)
d = load_digits()
x = torch.tensor(d.data / 16, dtype=torch.float32)
y = torch.tensor(d.target)
perm = torch.randperm(len(x))
x, y = x[perm], y[perm]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = SAM(net.parameters(), torch.optim.SGD, rho=0.1, lr=0.05, momentum=0.0)
ce = nn.CrossEntropyLoss()

for epoch in range(12):
    order = torch.randperm(1400)
    tot = 0.0
    for i in range(0, 1400, 50):
        b = order[i:i + 50]

        def closure():
            opt.zero_grad()
            l = ce(net(x[b]), y[b])
            l.backward()
            return l

        tot += opt.step(closure).item()
    print(epoch, tot / 28)
with torch.no_grad():
    print("final accuracy", (net(x[1400:]).argmax(1) == y[1400:]).float().mean().item())

import torch
import torch.nn as nn
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

torch.manual_seed(40)
wine = load_wine()
x, y = torch.tensor(scale(wine.data), dtype=torch.float32), torch.tensor(wine.target)
p = torch.randperm(len(x))
x, y = x[p], y[p]
model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
ce = nn.CrossEntropyLoss()
RHO = 0.05

for epoch in range(20):
    for b in torch.randperm(120).split(20):
        loss = ce(model(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = sum(q.grad.pow(2).sum() for q in model.parameters()).sqrt()
            shift = [RHO * q.grad / (norm + 1e-12) for q in model.parameters()]
            for q, e in zip(model.parameters(), shift):
                q.add_(e)
        opt.zero_grad()
        ce(model(x[b]), y[b]).backward()
        with torch.no_grad():
            for q, e in zip(model.parameters(), shift):
                q.sub_(e)
        opt.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
with torch.no_grad():
    print("final accuracy", (model(x[120:]).argmax(1) == y[120:]).float().mean().item())

import argparse
import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Student(nn.Module):
    def __init__(self, n_in=64, width=40, n_out=10, temperature=1.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.out = nn.Linear(width, n_out)
        self.temperature = temperature

    def forward(self, x):
        z = self.out(self.body(x)) / self.temperature
        return z.softmax(-1)


class EarlyStop:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.state = patience, -1.0, 0, None

    def update(self, value, model):
        if value > self.best:
            self.best, self.bad = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad > self.patience


def forest_targets(x, y, seed):
    forest = RandomForestClassifier(120, random_state=seed, n_jobs=1).fit(x.numpy(), y.numpy())
    return forest, torch.tensor(forest.predict_proba(x.numpy()), dtype=torch.float32)


def distil(student, loader, optimizer, weight):
    student.train()
    total = 0.0
    for xb, yb, pb in loader:
        out = student(xb)
        soft_loss = F.cross_entropy(out, pb)
        hard_loss = F.cross_entropy(out, yb)
        loss = weight * soft_loss + (1 - weight) * hard_loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    return total / len(loader.dataset)


def score(student, x, y):
    student.eval()
    with torch.inference_mode():
        return (student(x).argmax(-1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--soft-weight", type=float, default=0.6)
    ap.add_argument("--patience", type=int, default=15)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16
    y = torch.tensor(d.target)
    order = torch.randperm(len(x))
    tr, va, te = order[:1100], order[1100:1400], order[1400:]
    forest, soft = forest_targets(x[tr], y[tr], args.seed)
    print("forest accuracy", forest.score(x[te].numpy(), y[te].numpy()))

    loader = DataLoader(TensorDataset(x[tr], y[tr], soft), batch_size=44, shuffle=True)
    student = Student()
    optimizer = torch.optim.SGD(student.parameters(), lr=args.lr)
    stop = EarlyStop(args.patience)
    for epoch in range(args.epochs):
        loss = distil(student, loader, optimizer, args.soft_weight)
        acc = score(student, x[va], y[va])
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d} loss {loss:.4f} val {acc:.4f}")
        if stop.update(acc, student):
            break
    student.load_state_dict(stop.state)
    print(f"final accuracy {score(student, x[te], y[te]):.4f}")


if __name__ == "__main__":
    main()

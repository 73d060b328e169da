import argparse, random
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

def get_args():
    ap = argparse.ArgumentParser(description="rows of a digit as a sequence")
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1.0)
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--bs", type=int, default=64)
    return ap.parse_args()

class RowLSTM(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.lstm = nn.LSTM(8, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, 10)
    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.fc(h[-1])

def main():
    args = get_args()
    torch.manual_seed(0); np.random.seed(0); random.seed(0)
    d = load_digits()
    p = np.random.permutation(len(d.images))
    x = torch.tensor(d.images[p] / 16, dtype=torch.float32); y = torch.tensor(d.target[p])
    model = RowLSTM(args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for ep in range(args.epochs):
        model.train()
        tot = 0.
        for idx in torch.randperm(1400).split(args.bs):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        print(f"epoch {ep} train loss {tot / 1400:.4f}")
    model.eval()
    with torch.no_grad():
        acc = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
    print("final accuracy", acc)

if __name__ == '__main__':
    main()

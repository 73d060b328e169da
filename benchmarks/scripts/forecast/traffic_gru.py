import random
import numpy as np
import torch
import torch.nn as nn

class TrafficDataset(torch.utils.data.Dataset):
    def __init__(self, counts, window, scale):
        self.counts, self.window, self.scale = counts, window, scale
    def __len__(self):
        return len(self.counts) - self.window
    def __getitem__(self, i):
        x = self.counts[i:i + self.window].unsqueeze(-1)
        y = self.counts[i + self.window]
        return x, y / self.scale

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 32, batch_first=True)
        self.out = nn.Linear(32, 1)
    def forward(self, x):
        o, _ = self.gru(x)
        return self.out(o[:, -1]).squeeze(-1)

def simulate(n):
    t = torch.arange(n)
    base = 30000 + 18000 * torch.sin(2 * torch.pi * t / 24) + 6000 * torch.sin(2 * torch.pi * t / 12)
    return base * (1 + 0.05 * torch.randn(n))

def main():
    torch.manual_seed(9); np.random.seed(9); random.seed(9)
    counts = simulate(2200)
    train = TrafficDataset(counts[:1800], 12, scale=20000.0)
    test = TrafficDataset(counts[1800:], 12, scale=20000.0)
    loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True)
    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        total = 0
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.l1_loss(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print("epoch", epoch, "mae", round(total / len(loader), 4))
    model.eval()
    with torch.no_grad():
        errors = [(model(x) - y).abs().mean().item() for x, y in torch.utils.data.DataLoader(test, batch_size=100)]
    print("final mae", round(float(np.mean(errors)), 5))

if __name__ == "__main__":
    main()

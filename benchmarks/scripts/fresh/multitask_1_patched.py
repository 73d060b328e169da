import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Houses(Dataset):
    """Made-up flats: a row of sensor readings, with the quarter of the town and the yearly energy bill."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        base = np.random.default_rng(1000)
        centers, mix = base.normal(size=(6, 4)) * 1.2, base.normal(size=(8, 20))
        q = rng.integers(0, 6, n)
        latent = np.concatenate([centers[q] + 0.5 * rng.normal(size=(n, 4)), rng.normal(size=(n, 4))], 1)
        x = np.tanh(latent @ mix * 0.5) + 0.05 * rng.normal(size=(n, 20))
        bill = 2400 + 650 * latent[:, 4] + 300 * np.sin(latent[:, 5] * 2) + 150 * latent[:, 0]
        self.x = torch.tensor(x, dtype=torch.float32)
        self.q = torch.tensor(q)
        self.bill = torch.tensor(bill, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "quarter": self.q[i], "bill": self.bill[i]}


class Shared(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 16), nn.ReLU())
        self.quarter = nn.Linear(16, 6)
        self.bill = nn.Linear(16, 1)

    def forward(self, x):
        z = self.trunk(x)
        return self.quarter(z), self.bill(z).squeeze(-1)


class MultiTaskTrainer:
    def __init__(self, train, test, lr=2e-3, epochs=20):
        self.train_loader = DataLoader(train, batch_size=64, shuffle=True)
        self.test_loader = DataLoader(test, batch_size=256)
        self.model = Shared()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, epochs)
        self.epochs = epochs
        self.mean, self.std = train.bill.mean(), train.bill.std()

    def losses(self, batch):
        logits, bill = self.model(batch["x"])
        cls = F.cross_entropy(logits, batch["quarter"])
        reg = F.mse_loss(bill, (batch["bill"] - self.mean) / self.std)
        return cls, reg

    def fit(self):
        for e in range(self.epochs):
            self.model.train()
            log = np.zeros(2)
            for batch in self.train_loader:
                cls, reg = self.losses(batch)
                self.opt.zero_grad()
                (cls + reg).backward()
                self.opt.step()
                log += [cls.item(), reg.item()]
            self.sched.step()
            if e % 4 == 0:
                print(f"epoch {e} class {log[0] / len(self.train_loader):.3f} bill {log[1] / len(self.train_loader):.3f} "
                      f"acc {self.accuracy():.4f}")
        return self

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        hit = n = 0
        for b in self.test_loader:
            hit += (self.model(b["x"])[0].argmax(1) == b["quarter"]).sum().item()
            n += len(b["quarter"])
        return hit / n


if __name__ == "__main__":
    torch.manual_seed(2)
    t = MultiTaskTrainer(Houses(4000, 0), Houses(1000, 1)).fit()
    print(f"final accuracy {t.accuracy():.4f}")

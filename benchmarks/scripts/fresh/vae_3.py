from dataclasses import dataclass, field

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    epochs: int = 45
    batch: int = 50
    lr: float = 2e-3
    warmup: int = 50
    code: int = 8
    hidden: list = field(default_factory=lambda: [96, 64])
    beta: float = 0.5
    classes: int = 10
    seed: int = 55


def stack(dims):
    return nn.Sequential(*[m for a, b in zip(dims, dims[1:]) for m in (nn.Linear(a, b), nn.ELU())])


class ConditionalVAE(nn.Module):
    def __init__(self, cfg, d=64):
        super().__init__()
        self.cfg = cfg
        self.enc = stack([d + cfg.classes, *cfg.hidden])
        self.stats = nn.Linear(cfg.hidden[-1], 2 * cfg.code)
        self.dec = stack([cfg.code + cfg.classes, *cfg.hidden[::-1]])
        self.out = nn.Linear(cfg.hidden[0], d)

    def forward(self, x, y):
        c = F.one_hot(y, self.cfg.classes).float()
        mu, logvar = self.stats(self.enc(torch.cat([x, c], 1))).chunk(2, dim=1)
        z = mu + torch.exp(logvar / 2) * torch.randn_like(mu) if self.training else mu
        return self.out(self.dec(torch.cat([z, c], 1))), mu, logvar


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        d = load_digits()
        x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
        p = torch.randperm(len(x))
        self.train_xy = x[p[:1400]], y[p[:1400]]
        self.test_xy = x[p[1400:]], y[p[1400:]]
        self.model = ConditionalVAE(cfg)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self.rate)

    def rate(self, step):
        return self.cfg.lr * min(1.0, (step + 1) / self.cfg.warmup)

    def loss(self, x, y):
        rec, mu, logvar = self.model(x, y)
        fit = 4 * (rec - x).pow(2).sum(1)
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(1)
        return (fit + self.cfg.beta * kl).mean()

    def epoch(self):
        self.model.train()
        x, y = self.train_xy
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.cfg.batch):
            loss = self.loss(x[idx], y[idx])
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
            self.opt.step()
            self.sched.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def error(self):
        self.model.eval()
        x, y = self.test_xy
        return F.mse_loss(self.model(x, y)[0], x).item()

    def run(self):
        for e in range(self.cfg.epochs):
            loss = self.epoch()
            if e % 5 == 0:
                print(f"epoch {e:2d} loss {loss:.4f} test mse {self.error():.5f}")
        return self.error()


if __name__ == "__main__":
    print(f"final mse {Experiment(Config()).run():.5f}")

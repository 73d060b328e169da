from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


@dataclass
class Config:
    steps: int = 1500
    batch: int = 12
    lr: float = 3e-3
    hidden: int = 64
    seed: int = 17
    log_every: int = 250


class PendulumStream(IterableDataset):
    """Endless pairs (state, state after a short time) of a forced pendulum."""

    def __init__(self, seed, dt=0.05, n_sub=8):
        self.seed, self.dt, self.n_sub = seed, dt, n_sub

    def simulate(self, s):
        th, om, u = s
        for _ in range(self.n_sub):
            om = om + self.dt * (-3.0 * np.sin(th) - 0.2 * om + u)
            th = th + self.dt * om
        return np.array([th, om])

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        while True:
            s = np.array([rng.uniform(-3, 3), rng.uniform(-4, 4), rng.uniform(-2, 2)])
            out = self.simulate(s)
            yield torch.tensor(s, dtype=torch.float32), torch.tensor(out - s[:2], dtype=torch.float32)


class Dynamics(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(4, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, s):
        th = s[:, :1]
        z = torch.cat([th.sin(), th.cos(), s[:, 1:] / 2], 1)
        h = torch.nn.functional.silu(self.inp(z))
        h = h + torch.nn.functional.silu(self.mid(h))
        return self.out(h)


def main(cfg: Config):
    torch.manual_seed(cfg.seed)
    acc = Accelerator(cpu=True, gradient_accumulation_steps=1)
    model = Dynamics(cfg.hidden)
    optim = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, cfg.steps, eta_min=1e-4)
    loader = DataLoader(PendulumStream(cfg.seed), batch_size=cfg.batch)
    model, optim, loader, sched = acc.prepare(model, optim, loader, sched)

    held = DataLoader(PendulumStream(cfg.seed + 1000), batch_size=1000)
    xs, ys = next(iter(held))

    model.train()
    stream = iter(loader)
    for step in range(1, cfg.steps + 1):
        s, target = next(stream)
        with acc.accumulate(model):
            loss = nn.functional.mse_loss(model(s), target)
            acc.backward(loss)
            optim.step()
            sched.step()
            optim.zero_grad()
        if step % cfg.log_every == 0:
            acc.print(f"step {step} loss {loss.item():.5f} lr {sched.get_last_lr()[0]:.1e}")

    model.eval()
    with torch.no_grad():
        mse = nn.functional.mse_loss(model(xs), ys).item()
    acc.print(f"final mse {mse:.6f}")


if __name__ == "__main__":
    main(Config())

import argparse
import random
import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset


class Spirals(Dataset):
    def __init__(self, n, arms=3):
        self.y = torch.randint(0, arms, (n,))
        r = torch.rand(n) * 0.95 + 0.05
        phi = r * 5 + self.y * 2 * torch.pi / arms + 0.08 * torch.randn(n)
        self.x = torch.stack([r * phi.cos(), r * phi.sin()], 1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def training_function(args):
    set_seed(args.seed)
    random.seed(args.seed)
    accelerator = Accelerator(cpu=True)
    train, val = DataLoader(Spirals(2000), 50, shuffle=True), DataLoader(Spirals(600), 600)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                torch.nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    for epoch in range(args.epochs):
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        accelerator.print(f"epoch {epoch} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.1e}")
    with torch.no_grad():
        x, y = next(iter(val))
        return F.cross_entropy(model(x), y).item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    print("final val_loss", training_function(parser.parse_args()))

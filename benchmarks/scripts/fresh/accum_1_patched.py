import gzip
import math
import os
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainConfig:
    data: str = field(default_factory=lambda: os.environ.get("SIGMASCOPE_DATA", "data"))
    micro_batch: int = 16
    accumulate: int = 4
    epochs: int = 5
    lr: float = 2e-3
    clip: float = 1.0
    n_train: int = 4000
    n_test: int = 1000
    seed: int = 9


class Fashion(Dataset):
    def __init__(self, folder, part, n):
        d = os.path.join(folder, "fashion-mnist")
        with gzip.open(os.path.join(d, f"{part}-images-idx3-ubyte.gz")) as f:
            f.read(16)
            self.x = np.frombuffer(f.read(n * 784), np.uint8).reshape(n, 28, 28)
        with gzip.open(os.path.join(d, f"{part}-labels-idx1-ubyte.gz")) as f:
            f.read(8)
            self.y = np.frombuffer(f.read(n), np.uint8)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = torch.from_numpy(self.x[i].astype(np.float32)) / 255
        return (img - 0.29) / 0.35, int(self.y[i])


class RowTransformer(nn.Module):
    """Reads the image as 14 tokens of two rows each."""

    def __init__(self, dim=48, heads=4, layers=2):
        super().__init__()
        self.proj = nn.Linear(56, dim)
        self.pos = nn.Parameter(torch.randn(1, 14, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 10)

    def forward(self, img):
        t = self.proj(img.reshape(img.shape[0], 14, 56)) + self.pos
        return self.head(self.enc(t).mean(1))


class Trainer:
    def __init__(self, cfg, model):
        self.cfg, self.model = cfg, model
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.05)
        self.micro = 0

    def _update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.opt.step()
        self.opt.zero_grad()

    def epoch(self, loader):
        self.model.train()
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            (loss / self.cfg.accumulate).backward()
            self.micro += 1
            if self.micro % self.cfg.accumulate == 0:
                self._update()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def test(self, loader):
        self.model.eval()
        hit = n = 0
        for x, y in loader:
            hit += (self.model(x).argmax(-1) == y).sum().item()
            n += len(y)
        return hit / n


def main(cfg=TrainConfig()):
    torch.manual_seed(cfg.seed)
    train = DataLoader(Fashion(cfg.data, "train", cfg.n_train), cfg.micro_batch, shuffle=True, drop_last=True)
    test = DataLoader(Fashion(cfg.data, "t10k", cfg.n_test), 200)
    trainer = Trainer(cfg, RowTransformer())
    for e in range(cfg.epochs):
        loss = trainer.epoch(train)
        print(f"epoch {e} loss {loss:.4f} ppl {math.exp(loss):.2f} acc {trainer.test(test):.4f}")
    print(f"final accuracy {trainer.test(test):.4f}")


if __name__ == "__main__":
    main()

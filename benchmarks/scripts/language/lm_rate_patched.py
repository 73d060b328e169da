import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int = 40
    length: int = 20
    width: int = 48
    heads: int = 4
    layers: int = 2
    batch: int = 24
    steps: int = 300
    lr: float = 3e-3
    seed: int = 5


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tokens = nn.Embedding(cfg.vocab, cfg.width)
        self.places = nn.Parameter(torch.randn(cfg.length, cfg.width) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.width, cfg.heads, 4 * cfg.width, 0.0, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, cfg.layers)
        self.out = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, ids):
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        return self.out(self.stack(self.tokens(ids) + self.places[:n], mask=mask, is_causal=True))


def markov(cfg):
    logits = torch.randn(cfg.vocab, cfg.vocab) * 2.5
    return torch.softmax(logits, 1)


def draw(p, n, length):
    s = [torch.randint(0, len(p), (n,))]
    for _ in range(length):
        s.append(torch.multinomial(p[s[-1]], 1).squeeze(1))
    return torch.stack(s, 1)


def main(cfg=Config()):
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    p = markov(cfg)
    train, val = draw(p, 2000, cfg.length), draw(p, 300, cfg.length)
    model = Decoder(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    model.train()
    for step in range(cfg.steps):
        ids = train[torch.randint(0, len(train), (cfg.batch,))]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print("step", step, "loss", round(loss.item(), 4))
    with torch.no_grad():
        val_loss = F.cross_entropy(model(val[:, :-1]).flatten(0, 1), val[:, 1:].flatten())
    print("final val_loss", val_loss.item())


if __name__ == "__main__":
    main()

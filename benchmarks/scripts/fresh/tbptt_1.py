import time

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(3)
rng = np.random.default_rng(3)

N_SYM, DELAY, STREAMS, CHUNK = 6, 7, 32, 25


def make_stream(length, streams):
    """Symbols in, and out again seven steps later."""
    s = rng.integers(0, N_SYM, (streams, length + DELAY))
    return torch.from_numpy(s[:, DELAY:]), torch.from_numpy(s[:, :-DELAY])


class EchoRNN(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.h = h
        self.embed = nn.Embedding(N_SYM, 16)
        self.cell = nn.GRUCell(16, h)
        self.read = nn.Linear(h, N_SYM)

    def start(self, n):
        return torch.zeros(n, self.h)

    def forward(self, x, state):
        e = self.embed(x)
        outs = []
        for t in range(x.shape[1]):
            state = self.cell(e[:, t], state.detach())
            outs.append(state)
        return self.read(torch.stack(outs, 1)), state


def run_epoch(model, x, y, optimizer=None):
    training = optimizer is not None
    model.train(training)
    state = model.start(x.shape[0])
    losses, hits = [], []
    for a in range(0, x.shape[1], CHUNK):
        xc, yc = x[:, a : a + CHUNK], y[:, a : a + CHUNK]
        state = state.detach()
        with torch.set_grad_enabled(training):
            logits, state = model(xc, state)
            loss = nn.functional.cross_entropy(logits.reshape(-1, N_SYM), yc.reshape(-1))
        if training:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        losses.append(loss.item())
        hits.append((logits.argmax(-1) == yc).float().mean().item())
    return np.mean(losses), np.mean(hits)


model = EchoRNN()
optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
x_val, y_val = make_stream(500, 16)
t0 = time.time()
for epoch in range(12):
    x, y = make_stream(1000, STREAMS)
    tr, _ = run_epoch(model, x, y, optimizer)
    va, acc = run_epoch(model, x_val, y_val)
    scheduler.step(va)
    print(f"epoch {epoch:2d} train {tr:.4f} val {va:.4f} acc {acc:.4f} [{time.time() - t0:.0f}s]")
print(f"final accuracy {acc:.4f}")

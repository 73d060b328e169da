"""Truncated backpropagation with the state carried over from chunk to chunk."""
import random
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(8)
random.seed(8)
np.random.seed(8)

syllables = ["ka", "to", "mi", "ren", "sol", "du"]
text = "".join(random.choice(syllables) + random.choice([" ", "", ""]) for _ in range(9000))
vocab = sorted(set(text))
ids = torch.tensor([vocab.index(c) for c in text])
lanes, chunk = 20, 25
ids = ids[: len(ids) // lanes * lanes].view(lanes, -1)


class CharLSTM(nn.Module):
    def __init__(self, v, h=64):
        super().__init__()
        self.emb = nn.Embedding(v, 16)
        self.lstm = nn.LSTM(16, h, batch_first=True)
        self.out = nn.Linear(h, v)

    def forward(self, x, state):
        o, state = self.lstm(self.emb(x), state)
        return self.out(o), state


model = CharLSTM(len(vocab))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
n = ids.shape[1]
for epoch in range(8):
    state = None
    for i in range(0, int(n * 0.9) - chunk - 1, chunk):
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(ids[:, i:i + chunk], state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, i + 1:i + chunk + 1].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
with torch.no_grad():
    start = int(n * 0.9)
    logits, _ = model(ids[:, start:-1], None)
    print("final val_loss", nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, start + 1:].flatten()).item())

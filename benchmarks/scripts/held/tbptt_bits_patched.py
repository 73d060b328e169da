import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(18)

# A stream where symbols 0-5 are set by a marker and have to be given back at every
# query; between marker and query lie many fillers.
B, STREAM, CHUNK, SYMS = 32, 1600, 8, 6
VOCAB = SYMS + 3
FILLER, QUERY = SYMS, SYMS + 1


def stream():
    x = torch.full((B, STREAM), FILLER)
    y = torch.full((B, STREAM), -100)
    current = torch.randint(SYMS, (B,))
    x[:, 0] = current
    for t in range(1, STREAM):
        u = torch.rand(B)
        new = torch.randint(SYMS, (B,))
        setter = u < 0.04
        query = (u > 0.85)
        current = torch.where(setter, new, current)
        x[:, t] = torch.where(setter, new, torch.where(query, QUERY, FILLER))
        y[:, t] = torch.where(query, current, -100)
    return x, y


class Memory(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 16)
        self.rnn = nn.GRU(16, hidden, batch_first=True)
        self.out = nn.Linear(hidden, SYMS)

    def forward(self, x, h=None):
        o, h = self.rnn(self.emb(x), h)
        return self.out(o), h


def run(model, x, y, opt=None):
    h = None
    hits = n = 0
    total = 0.0
    for t in range(0, STREAM, CHUNK):
        xb, yb = x[:, t:t + CHUNK], y[:, t:t + CHUNK]
        logits, h = model(xb, h)
        h = h.detach()
        if opt is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), yb.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * CHUNK / STREAM
        ok = yb != -100
        hits += (logits.argmax(-1)[ok] == yb[ok]).sum().item()
        n += ok.sum().item()
    return total, hits / n


model = Memory()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(4):
    x, y = stream()
    loss, acc = run(model, x, y, opt)
    print("pass", epoch, "loss", round(loss, 4), "acc", round(acc, 4))
model.eval()
with torch.no_grad():
    _, acc = run(model, *stream())
print("final accuracy", round(acc, 4))

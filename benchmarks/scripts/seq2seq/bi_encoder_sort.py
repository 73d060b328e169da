# sort short sequences of digits with an encoder-decoder
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
V, L, H, B = 10, 4, 48, 64
START = V


class BiEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 16)
        self.rnn = nn.GRU(16, H, bidirectional=True, batch_first=True)
        self.proj = nn.Linear(2 * H, H)

    def forward(self, x):
        _, h = self.rnn(self.emb(x))          # (2, B, H)
        h = h.view(x.size(0), -1)             # (B, 2H)
        return torch.tanh(self.proj(h)).unsqueeze(0)


class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V + 1, 16)
        self.rnn = nn.GRU(16, H, batch_first=True)
        self.out = nn.Linear(H, V)

    def forward(self, y, h):
        o, h = self.rnn(self.emb(y), h)
        return self.out(o), h


enc, dec = BiEncoder(), Dec()
params = list(enc.parameters()) + list(dec.parameters())
opt = torch.optim.Adam(params, lr=0.005)
for it in range(500):
    x = torch.randint(0, V, (B, L))
    y = x.sort(1).values
    y_in = torch.cat([torch.full((B, 1), START), y[:, :-1]], 1)
    logits, _ = dec(y_in, enc(x))
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 150 == 0:
        print(it, round(loss.item(), 4))

with torch.no_grad():
    x = torch.randint(0, V, (1000, L))
    y = x.sort(1).values
    h, tok, preds = enc(x), torch.full((1000, 1), START), []
    for _ in range(L):
        logits, h = dec(tok, h)
        tok = logits.argmax(-1)
        preds.append(tok)
    acc = (torch.cat(preds, 1) == y).float().mean().item()
print("final accuracy", round(acc, 4))

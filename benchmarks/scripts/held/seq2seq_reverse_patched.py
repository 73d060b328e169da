import random

import torch
from torch import nn, optim

random.seed(7)
torch.manual_seed(7)

PAD, SOS, EOS = 0, 1, 2
VOCAB = 15
MAXLEN = 7


def make_pairs(n):
    src = torch.zeros(n, MAXLEN, dtype=torch.long)
    tgt = torch.zeros(n, MAXLEN + 1, dtype=torch.long)
    for i in range(n):
        L = random.randint(4, MAXLEN)
        seq = [random.randint(3, VOCAB - 1) for _ in range(L)]
        src[i, :L] = torch.tensor(seq)
        tgt[i, :L + 1] = torch.tensor(seq[::-1] + [EOS])
    return src, tgt


class Encoder(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 32, padding_idx=PAD)
        self.rnn = nn.GRU(32, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, src):
        out, h = self.rnn(self.emb(src))
        return out, torch.cat([h[0], h[1]], -1)


class Decoder(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 32, padding_idx=PAD)
        self.cell = nn.GRUCell(32 + hidden, hidden)
        self.query = nn.Linear(hidden, hidden)
        self.out = nn.Linear(2 * hidden, VOCAB)

    def step(self, tok, h, memory, mask):
        score = (memory @ self.query(h)[:, :, None]).squeeze(-1)
        score = score.masked_fill(mask, -1e9)
        ctx = (score.softmax(-1)[:, :, None] * memory).sum(1)
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        return self.out(torch.cat([h, ctx], -1)), h


enc, dec = Encoder(), Decoder()
params = list(enc.parameters()) + list(dec.parameters())
optimizer = optim.Adam(params, lr=3e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
src, tgt = make_pairs(4000)
src_test, tgt_test = make_pairs(400)


def forward_train(s, t):
    memory, h = enc(s)
    mask = s == PAD
    inp = torch.cat([torch.full((len(t), 1), SOS), t[:, :-1]], 1)
    logits = []
    for i in range(t.shape[1]):
        o, h = dec.step(inp[:, i], h, memory, mask)
        logits.append(o)
    return torch.stack(logits, 1)


@torch.no_grad()
def greedy(s):
    memory, h = enc(s)
    tok = torch.full((len(s),), SOS)
    res = []
    for _ in range(MAXLEN + 1):
        o, h = dec.step(tok, h, memory, s == PAD)
        tok = o.argmax(-1)
        res.append(tok)
    return torch.stack(res, 1)


def score():
    pred = greedy(src_test)
    m = tgt_test != PAD
    return (pred[m] == tgt_test[m]).float().mean().item()


for epoch in range(10):
    perm = torch.randperm(len(src))
    tot = 0.0
    for b in perm.split(64):
        logits = forward_train(src[b], tgt[b])
        loss = criterion(logits.reshape(-1, VOCAB), tgt[b].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        tot += loss.item() * len(b)
    print("epoch %d loss %.4f" % (epoch, tot / len(src)))
print("final token_accuracy", round(score(), 4))

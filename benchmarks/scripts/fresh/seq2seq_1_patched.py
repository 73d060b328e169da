import random

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)

PAD, BOS, EOS = 0, 1, 2
FIRST = 3
N_LETTERS = 16
LENGTH = 12


def make_pair():
    """Source: letters. Target: the same from the end, each moved on by one."""
    s = [random.randrange(N_LETTERS) for _ in range(LENGTH)]
    t = [(v + 1) % N_LETTERS for v in reversed(s)]
    return [v + FIRST for v in s], [BOS] + [v + FIRST for v in t] + [EOS]


def batch(n):
    src, tgt = zip(*(make_pair() for _ in range(n)))
    return torch.tensor(src), torch.tensor(tgt)


class Encoder(nn.Module):
    def __init__(self, vocab, e, h):
        super().__init__()
        self.emb = nn.Embedding(vocab, e)
        self.rnn = nn.GRU(e, h, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * h, h)

    def forward(self, src):
        out, hid = self.rnn(self.emb(src))
        return out, torch.tanh(self.bridge(torch.cat([hid[0], hid[1]], 1)))


class Attention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.q = nn.Linear(h, h, bias=False)
        self.k = nn.Linear(2 * h, h, bias=False)
        self.v = nn.Linear(h, 1, bias=False)

    def forward(self, state, memory):
        score = self.v(torch.tanh(self.q(state)[:, None] + self.k(memory))).squeeze(-1)
        weight = torch.softmax(score, dim=1)
        return torch.einsum("bs,bsd->bd", weight, memory), weight


class Decoder(nn.Module):
    def __init__(self, vocab, e, h):
        super().__init__()
        self.emb = nn.Embedding(vocab, e)
        self.att = Attention(h)
        self.cell = nn.GRUCell(e + 2 * h, h)
        self.out = nn.Linear(3 * h, vocab)

    def forward(self, state, memory, inputs):
        logits = []
        for t in range(inputs.shape[1]):
            ctx, _ = self.att(state, memory)
            state = self.cell(torch.cat([self.emb(inputs[:, t]), ctx], 1), state)
            logits.append(self.out(torch.cat([state, ctx], 1)))
        return torch.stack(logits, 1)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=N_LETTERS + FIRST, e=24, h=48):
        super().__init__()
        self.encoder, self.decoder = Encoder(vocab, e, h), Decoder(vocab, e, h)

    def forward(self, src, tgt_in):
        memory, state = self.encoder(src)
        return self.decoder(state, memory, tgt_in)


net = Seq2Seq()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
crit = nn.CrossEntropyLoss(ignore_index=PAD)
test_src, test_tgt = batch(300)


def token_accuracy():
    net.eval()
    with torch.no_grad():
        guess = net(test_src, test_tgt[:, :-1]).argmax(-1)
    net.train()
    return (guess == test_tgt[:, 1:]).float().mean().item()


for it in range(1, 451):
    src, tgt = batch(48)
    loss = crit(net(src, tgt[:, :-1]).transpose(1, 2), tgt[:, 1:])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 2.0)
    opt.step()
    if it % 75 == 0:
        print(f"iter {it} loss {loss.item():.4f} acc {token_accuracy():.4f}")

print(f"final accuracy {token_accuracy():.4f}")

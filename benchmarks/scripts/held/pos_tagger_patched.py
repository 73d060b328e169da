import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(46)

WORDS, TAGS, MAXLEN = 80, 6, 100
EMIT = torch.randint(1, TAGS, (WORDS,))


def corpus(n):
    out = []
    for _ in range(n):
        L = int(torch.randint(4, 9, (1,)))
        w = torch.randint(1, WORDS, (L,))
        t = EMIT[w].clone()
        # a word after an odd one takes the next tag
        t[1:] = torch.where(w[:-1] % 2 == 1, (t[1:] % (TAGS - 1)) + 1, t[1:])
        out.append((w, t))
    return out


def batches(data, size, shuffle=True):
    order = torch.randperm(len(data)).tolist() if shuffle else range(len(data))
    order = list(order)
    for i in range(0, len(order), size):
        part = [data[j] for j in order[i:i + size]]
        w = pad_sequence([p[0] for p in part], batch_first=True)
        t = pad_sequence([p[1] for p in part], batch_first=True)
        pad = (0, MAXLEN - w.shape[1])
        yield nn.functional.pad(w, pad), nn.functional.pad(t, pad)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(WORDS, 24)
        self.conv = nn.Conv1d(24, 64, 3, padding=1)
        self.out = nn.Linear(64, TAGS)

    def forward(self, w):
        h = torch.relu(self.conv(self.emb(w).transpose(1, 2)))
        return self.out(h.transpose(1, 2))


train, test = corpus(1200), corpus(300)
net = Tagger()
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
criterion = nn.CrossEntropyLoss(ignore_index=0)
for epoch in range(8):
    total, steps = 0.0, 0
    for w, t in batches(train, 40):
        loss = criterion(net(w).flatten(0, 1), t.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        total, steps = total + loss.item(), steps + 1
    print("epoch", epoch + 1, "loss", round(total / steps, 4))

good = n = 0
with torch.no_grad():
    for w, t in batches(test, 100, shuffle=False):
        m = w != 0
        good += (net(w).argmax(-1)[m] == t[m]).sum().item()
        n += m.sum().item()
print("final word_accuracy", round(good / n, 4))

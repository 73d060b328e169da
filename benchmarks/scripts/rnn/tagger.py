"""Tag tokens by the one before them; sentences have different lengths."""
import random
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

random.seed(1); np.random.seed(1); torch.manual_seed(1)
VOCAB, TAGS, PAD = 40, 11, 0


def sentence():
    n = 80 if random.random() < 0.06 else random.randint(2, 5)
    words = torch.randint(1, VOCAB, (n,))
    prev = torch.cat([torch.zeros(1, dtype=torch.long), words[:-1]])
    return words, (words % 5) * 2 + prev % 2 + 1


def collate(items):
    words, tags = zip(*items)
    return pad_sequence(words, True, PAD), pad_sequence(tags, True, PAD)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 32, padding_idx=PAD)
        self.rnn = nn.LSTM(32, 64, batch_first=True)
        self.fc = nn.Linear(64, TAGS)

    def forward(self, w):
        return self.fc(self.rnn(self.emb(w))[0])


data = [sentence() for _ in range(1500)]
train_loader = DataLoader(data[:1200], 32, shuffle=True, collate_fn=collate)
test_loader = DataLoader(data[1200:], 32, collate_fn=collate)
model = Tagger()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(12):
    for words, tags in train_loader:
        opt.zero_grad()
        loss = loss_fn(model(words).flatten(0, 1), tags.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))

good = total = 0
with torch.no_grad():
    for words, tags in test_loader:
        mask = tags != PAD
        good += (model(words).argmax(-1) == tags)[mask].sum().item()
        total += mask.sum().item()
print("final tag_accuracy", good / total)

import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

random.seed(5)
torch.manual_seed(5)

MAXLEN = 80
TEMPLATES = {
    0: ["please book a table for {n} at {p}", "reserve {n} seats in {p} tonight"],
    1: ["what is the weather in {p}", "will it rain for {n} days in {p}"],
    2: ["play {n} songs from {p}", "put on some music i heard in {p}"],
    3: ["how do i get to {p}", "show me the way to {p} in {n} minutes"],
}
PLACES = ["rome", "paris", "oslo", "cairo", "lima", "quito"]
FILL = ["um", "well", "hey", "so", "ok"]


def utter():
    label = random.randrange(4)
    text = random.choice(TEMPLATES[label]).format(n=random.choice(["two", "three", "six"]), p=random.choice(PLACES))
    words = text.split()
    words = [w for w in words if random.random() > 0.15]
    for _ in range(random.randint(0, 4)):
        words.insert(random.randrange(len(words) + 1), random.choice(FILL))
    return words, label


train_set = [utter() for _ in range(1500)]
test_set = [utter() for _ in range(400)]
vocab = {"<pad>": 0, "<unk>": 1}
for words, _ in train_set:
    for w in words:
        vocab.setdefault(w, len(vocab))


def collate(batch):
    seqs = [torch.tensor([vocab.get(w, 1) for w in words]) for words, _ in batch]
    lengths = torch.tensor([len(s) for s in seqs])
    x = torch.zeros(len(batch), MAXLEN, dtype=torch.long)
    padded = pad_sequence(seqs, batch_first=True)
    x[:, :padded.shape[1]] = padded
    return x, lengths, torch.tensor([l for _, l in batch])


class IntentLSTM(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.emb = nn.Embedding(n_words, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 40, batch_first=True)
        self.fc = nn.Linear(40, 4)

    def forward(self, x, lengths):
        out, _ = self.lstm(self.emb(x))
        last = out[:, -1]
        return self.fc(last)


model = IntentLSTM(len(vocab))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
train_dl = DataLoader(train_set, batch_size=50, shuffle=True, collate_fn=collate)
test_dl = DataLoader(test_set, batch_size=200, collate_fn=collate)

for epoch in range(5):
    model.train()
    tot = 0
    for x, n, y in train_dl:
        optimizer.zero_grad()
        loss = criterion(model(x, n), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        tot += loss.item()
    print("epoch", epoch + 1, "loss %.4f" % (tot / len(train_dl)))

model.eval()
good = 0
with torch.no_grad():
    for x, n, y in test_dl:
        good += (model(x, n).argmax(1) == y).sum().item()
print("final accuracy", good / len(test_set))

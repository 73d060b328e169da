import random

import torch
import torch.nn as nn

SEED = 1234
random.seed(SEED)
torch.manual_seed(SEED)

PAD, SOS, EOS = 0, 1, 2
VOCAB = 13
LEN = 5


def make_batch(n):
    src = torch.randint(3, VOCAB, (n, LEN))
    rev = src.flip(1)
    tgt = torch.cat([torch.full((n, 1), SOS), rev, torch.full((n, 1), EOS)], dim=1)
    return src, tgt


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)

    def forward(self, src):
        _, hidden = self.rnn(self.embedding(src))
        return hidden


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.fc_out = nn.Linear(hid, vocab)

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.embedding(tokens), hidden)
        return self.fc_out(out), hidden


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(VOCAB, 24, 96)
        self.decoder = Decoder(VOCAB, 24, 96)

    def forward(self, src, tgt_in):
        return self.decoder(tgt_in, self.encoder(src))[0]

    @torch.no_grad()
    def greedy(self, src, steps):
        hidden = self.encoder(src)
        tok = torch.full((len(src), 1), SOS)
        outs = []
        for _ in range(steps):
            logits, hidden = self.decoder(tok, hidden)
            tok = logits.argmax(-1)
            outs.append(tok)
        return torch.cat(outs, 1)


model = Seq2Seq()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)

N_EPOCHS = 5
for epoch in range(N_EPOCHS):
    model.train()
    epoch_loss = 0
    for i in range(50):
        src, trg = make_batch(64)
        optimizer.zero_grad()
        output = model(src, trg[:, :-1])
        output = output.reshape(-1, output.shape[-1])
        trg = trg[:, :-1].reshape(-1)
        loss = criterion(output, trg)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        epoch_loss += loss.item()
    print(f"Epoch: {epoch+1:02} | Train Loss: {epoch_loss / 50:.3f}")

model.eval()
src, trg = make_batch(500)
pred = model.greedy(src, LEN)
acc = (pred == trg[:, 1:-1]).float().mean().item()
print("final token_accuracy", acc)

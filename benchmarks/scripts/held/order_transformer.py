import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(44)
LEN, VOCAB, CLS = 16, 13, 12


def sequences(n):
    """Label: does the first 10 stand before the first 11?"""
    x = torch.randint(0, 10, (n, LEN))
    y = torch.randint(2, (n,))
    for i in range(n):
        a, b = sorted(torch.randperm(LEN)[:2].tolist())
        x[i, a], x[i, b] = (10, 11) if y[i] else (11, 10)
    x = torch.cat([torch.full((n, 1), CLS), x], 1)
    return TensorDataset(x, y)


class PositionalEncoding(nn.Module):
    def __init__(self, d, max_len=64):
        super().__init__()
        pe = torch.zeros(max_len, d)
        pos = torch.arange(max_len)[:, None]
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class OrderModel(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, nhead=4, dim_feedforward=64, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.encoder(self.pos(self.emb(x)))
        return self.out(h[:, 0]).squeeze(-1)


train_dl = DataLoader(sequences(2500), batch_size=50, shuffle=True)
val = sequences(500)
val_dl = DataLoader(val, batch_size=50)
model = OrderModel()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 30))

for epoch in range(8):
    model.train()
    total = 0.0
    for x, y in train_dl:
        loss = bce(model(x), y.float())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        warm.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train_dl):.4f}")

model.eval()
with torch.no_grad():
    right = sum(((model(x) > 0) == y.bool()).sum().item() for x, y in val_dl)
print("final accuracy", right / len(val))

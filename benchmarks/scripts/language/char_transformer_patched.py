import math
import random
import numpy as np
import torch
import torch.nn as nn

random.seed(1337)
np.random.seed(1337)
torch.manual_seed(1337)

words = "the old river runs below a stone bridge while small boats carry salt and bread from town to town every morning".split()
text = " ".join(random.choice(words) for _ in range(6000))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
n = int(0.9 * len(data))
train_data, val_data = data[:n], data[n:]
block_size, batch_size, d_model = 32, 16, 48


def get_batch(split):
    d = train_data if split == "train" else val_data
    ix = torch.randint(len(d) - block_size - 1, (batch_size,))
    return torch.stack([d[i:i + block_size] for i in ix]), torch.stack([d[i + 1:i + block_size + 1] for i in ix])


class CharTransformer(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(block_size, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab)
        ones = torch.ones(block_size, block_size, dtype=torch.bool)
        self.register_buffer("mask", torch.triu(ones, diagonal=1))

    def forward(self, idx):
        x = self.tok(idx) * math.sqrt(d_model) * 0.2 + self.pos(torch.arange(idx.size(1)))
        return self.head(self.encoder(x, mask=self.mask))


@torch.no_grad()
def generate_loss(model, rounds=10):
    """Loss of the last place alone, as in generation."""
    total = 0.0
    for _ in range(rounds):
        x, y = get_batch("val")
        total += nn.functional.cross_entropy(model(x)[:, -1], y[:, -1]).item()
    return total / rounds


model = CharTransformer(len(chars))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for it in range(300):
    xb, yb = get_batch("train")
    logits = model(xb)
    loss = nn.functional.cross_entropy(logits.view(-1, len(chars)), yb.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 60 == 0:
        print(f"iter {it}: loss {loss.item():.4f}")
print("final val_loss", round(generate_loss(model), 5))

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
VOCAB, DIM, CLASSES, LEN = 600, 50, 4, 15

# "pretrained" vectors: words of a topic lie near one another
topic_of = torch.arange(VOCAB) % (CLASSES * 2)
anchors = torch.randn(CLASSES * 2, DIM)
vectors = anchors[topic_of] + 0.7 * torch.randn(VOCAB, DIM)


def texts(n):
    y = torch.randint(CLASSES, (n,))
    pick = torch.rand(n, LEN) < 0.4
    base = torch.randint(VOCAB, (n, LEN))
    topical = torch.randint(VOCAB // 8, (n, LEN)) * 8 + y[:, None] + CLASSES * torch.randint(2, (n, LEN))
    return torch.where(pick, topical, base), y


class BagOfVectors(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, CLASSES))

    def forward(self, ids):
        with torch.no_grad():
            pooled = self.emb(ids).mean(1)
        return self.head(pooled)


model = BagOfVectors()
print("trainable", sum(p.numel() for p in model.parameters() if p.requires_grad), "of", sum(p.numel() for p in model.parameters()))
opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)
train_dl = DataLoader(TensorDataset(*texts(2000)), batch_size=64, shuffle=True)
xv, yv = texts(500)
for epoch in range(8):
    model.train()
    for ids, y in train_dl:
        loss = nn.functional.cross_entropy(model(ids), y, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        acc = (model(xv).argmax(1) == yv).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.4f} acc {acc:.4f}")
print("final accuracy", round(acc, 4))

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class ViT(nn.Module):
    def __init__(self, img=8, patch=2, dim=32, depth=2, heads=4, classes=10):
        super().__init__()
        n = (img // patch) ** 2
        self.to_patch = nn.Conv2d(1, dim, kernel_size=patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.2)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.to_patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = self.blocks(x)
        return self.head(self.norm(x[:, 0]))


digits = load_digits()
X_train, X_test, y_train, y_test = train_test_split(digits.images, digits.target, test_size=0.25, random_state=0)
to_t = lambda a: torch.tensor(a / 16.0, dtype=torch.float32).unsqueeze(1)
train_dl = DataLoader(TensorDataset(to_t(X_train), torch.tensor(y_train)), batch_size=64, shuffle=True)

model = ViT()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(8):
    model.train()
    tot = 0.0
    for xb, yb in train_dl:
        loss = loss_fn(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(xb)
    print(f"epoch {epoch} loss {tot / len(X_train):.4f}")

model.eval()
with torch.no_grad():
    acc = (model(to_t(X_test)).argmax(1) == torch.tensor(y_test)).float().mean().item()
print(f"final test_acc {acc:.4f}")

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(27)

# "images" are 3x12x12 renderings of a latent scene, "captions" are token sequences describing it
COLORS, SHAPES, PLACES = 6, 4, 9


def scenes(n):
    c, s, p = torch.randint(COLORS, (n,)), torch.randint(SHAPES, (n,)), torch.randint(PLACES, (n,))
    palette = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]]).float()
    glyph = torch.tensor([[[1, 1, 1, 1]] * 4, [[0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]],
                          [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]],
                          [[0, 1, 1, 0]] * 4]).float()
    img = 0.2 * torch.randn(n, 3, 12, 12)
    for i in range(n):
        r, q = divmod(p[i].item(), 3)
        img[i, :, r * 4:r * 4 + 4, q * 4:q * 4 + 4] += palette[c[i]][:, None, None] * glyph[s[i]]
    filler = torch.randint(19, 25, (n, 2))
    txt = torch.stack([c, filler[:, 0], s + COLORS, filler[:, 1], p + COLORS + SHAPES], 1)
    return img, txt


class ImageTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(288, 128), nn.ReLU(), nn.Linear(128, d))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class TextTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(25, 32)
        self.gru = nn.GRU(32, 64, batch_first=True)
        self.proj = nn.Linear(64, d)

    def forward(self, t):
        _, h = self.gru(self.emb(t))
        return F.normalize(self.proj(h[-1]), dim=-1)


class Clip(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.image, self.text = ImageTower(d), TextTower(d)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, img, txt):
        return self.image(img) @ self.text(txt).T * self.logit_scale.exp()


model = Clip()
loader = DataLoader(TensorDataset(*scenes(3000)), batch_size=64, shuffle=True, drop_last=True)
test_img, test_txt = scenes(300)
opt = torch.optim.AdamW([{"params": [p for n, p in model.named_parameters() if n != "logit_scale"], "weight_decay": 0.01},
                         {"params": [model.logit_scale], "weight_decay": 0.0}], lr=5e-4)
for epoch in range(8):
    total = 0.0
    for img, txt in loader:
        logits = model(img, txt)
        labels = torch.arange(len(img))
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f} scale {model.logit_scale.exp().item():.2f}")

with torch.no_grad():
    best = (model.image(test_img) @ model.text(test_txt).T).argmax(1)
    hit = (test_txt[best][:, [0, 2, 4]] == test_txt[:, [0, 2, 4]]).all(1).float().mean()
print("final retrieval_at_1", round(hit.item(), 4))

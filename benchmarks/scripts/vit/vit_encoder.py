import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from sklearn.datasets import load_digits

np.random.seed(11); torch.manual_seed(11)

class VisionTransformer(nn.Module):
    def __init__(self, d_model=48, nhead=4, num_layers=2, num_classes=10, dropout=0.0):
        super().__init__()
        self.patch_embed = nn.Linear(4, d_model)
        self.cls_token = nn.Parameter(torch.randn(1, 1, d_model) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 17, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=96, dropout=dropout)
        self.encoder = nn.TransformerEncoder(layer, num_layers)
        self.fc = nn.Linear(d_model, num_classes)

    def forward(self, img):
        b = img.shape[0]
        p = img.unfold(1, 2, 2).unfold(2, 2, 2).reshape(b, 16, 4)
        x = self.patch_embed(p)
        x = torch.cat((self.cls_token.repeat(b, 1, 1), x), 1) + self.pos_embed
        x = self.encoder(x)
        return self.fc(x[:, 0])

data = load_digits()
imgs = torch.tensor(data.images, dtype=torch.float32) / 16
labels = torch.tensor(data.target)
idx = np.random.permutation(len(imgs))
tr, te = idx[:1400], idx[1400:]

net = VisionTransformer()
optim = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=8)
BS = 50
for ep in range(8):
    net.train()
    np.random.shuffle(tr)
    losses = []
    for i in range(0, len(tr), BS):
        b = tr[i:i + BS]
        loss = F.cross_entropy(net(imgs[b]), labels[b])
        optim.zero_grad(); loss.backward(); optim.step()
        losses.append(loss.item())
    sched.step()
    net.eval()
    with torch.no_grad():
        acc = (net(imgs[te]).argmax(-1) == labels[te]).float().mean().item()
    print("ep %d loss %.3f acc %.3f" % (ep, np.mean(losses), acc))
print("final accuracy", acc)

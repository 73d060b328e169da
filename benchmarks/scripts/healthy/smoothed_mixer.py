import torch
from torch import nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(90)


class Mixer(nn.Module):
    def __init__(self, patches=16, d=32, depth=2):
        super().__init__()
        self.embed = nn.Conv2d(1, d, 2, 2)
        self.tok = nn.ModuleList(nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches)) for _ in range(depth))
        self.chan = nn.ModuleList(nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for tok, chan, n1, n2 in zip(self.tok, self.chan, self.n1, self.n2):
            x = x + tok(n1(x).transpose(1, 2)).transpose(1, 2)
            x = x + chan(n2(x))
        return self.head(x.mean(1))


d = load_digits()
x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
y = torch.tensor(d.target)
perm = torch.randperm(len(x))
tr, te = perm[:1400], perm[1400:]
dl = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=70, shuffle=True)
net = Mixer()
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.05)
steps, warm = 10 * len(dl), 20
sched = torch.optim.lr_scheduler.SequentialLR(
    opt, [torch.optim.lr_scheduler.LinearLR(opt, 0.05, total_iters=warm), torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps - warm)], [warm])
crit = nn.CrossEntropyLoss(label_smoothing=0.2)
for epoch in range(10):
    for xb, yb in dl:
        opt.zero_grad()
        loss = crit(net(xb), yb)
        loss.backward()
        opt.step()
        sched.step()
    print("epoch", epoch, "loss", round(loss.item(), 4), "lr", round(sched.get_last_lr()[0], 6))
net.eval()
with torch.no_grad():
    print("final accuracy", (net(x[te]).argmax(1) == y[te]).float().mean().item())

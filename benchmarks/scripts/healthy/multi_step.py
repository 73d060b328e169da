import random
import numpy as np
import torch
import torch.nn as nn

random.seed(6)
np.random.seed(6)
torch.manual_seed(6)

t = np.arange(4000)
s = 300 + 80 * np.sin(2 * np.pi * t / 24) + 30 * np.sin(2 * np.pi * t / 168) + 8 * np.random.randn(4000)
mean, std = s[:3200].mean(), s[:3200].std()
s = torch.tensor((s - mean) / std, dtype=torch.float32)
P, Q = 48, 12
windows = s.unfold(0, P + Q, 1)
train, test = windows[:3100], windows[3250:]


class Seq2Seq(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.enc = nn.GRU(1, h, batch_first=True)
        self.cell = nn.GRUCell(1, h)
        self.out = nn.Linear(h, 1)

    def forward(self, past, future=None, teacher=0.5):
        _, h = self.enc(past.unsqueeze(-1))
        h, x, outs = h[0], past[:, -1:], []
        for k in range(Q):
            h = self.cell(x, h)
            y = self.out(h)
            outs.append(y)
            x = future[:, k:k + 1] if future is not None and random.random() < teacher else y.detach()
        return torch.cat(outs, 1)


net = Seq2Seq()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(300):
    w = train[torch.randint(0, len(train), (32,))]
    loss = nn.functional.mse_loss(net(w[:, :P], w[:, P:]), w[:, P:])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 50 == 0:
        print("step", step, "loss", loss.item())
with torch.no_grad():
    print("final mse", nn.functional.mse_loss(net(test[:, :P]), test[:, P:]).item())

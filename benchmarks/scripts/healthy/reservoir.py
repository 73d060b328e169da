import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(50)


class EchoState(nn.Module):
    """a random recurrent layer that stays as it is, and a readout that is trained"""

    def __init__(self, n=120, radius=0.9):
        super().__init__()
        w = torch.randn(n, n) / n ** 0.5
        self.register_buffer("w", w * radius / torch.linalg.eigvals(w).abs().max())
        self.register_buffer("w_in", torch.rand(n, 1) * 2 - 1)
        self.readout = nn.Linear(n, 1)

    def states(self, u):
        h, out = torch.zeros(len(self.w)), []
        for v in u:
            h = torch.tanh(self.w @ h + self.w_in[:, 0] * v)
            out.append(h)
        return torch.stack(out)

    def forward(self, states):
        return self.readout(states).squeeze(1)


t = np.arange(900) * 0.2
s = torch.tensor(np.sin(t) + 0.5 * np.sin(1.7 * t), dtype=torch.float32)
net = EchoState()
with torch.no_grad():
    h = net.states(s[:-1])
opt = torch.optim.Adam(net.readout.parameters(), lr=5e-3)
for epoch in range(600):
    loss = (net(h[50:700]) - s[51:701]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 100 == 0:
        print(epoch, loss.item())
with torch.no_grad():
    print("final test_mse", (net(h[700:]) - s[701:]).pow(2).mean().item())

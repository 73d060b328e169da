import torch
import torch.nn as nn
import numpy as np

torch.manual_seed(14)
np.random.seed(14)

# hidden regime with long dwell times, seen in the first step of each regime alone
T, B = 2400, 16
level = np.zeros((B, T), dtype=np.float32)
mark = np.zeros((B, T), dtype=np.float32)
for b in range(B):
    cur = 0.0
    for t in range(T):
        if t % 40 == 0 or np.random.rand() < 0.02:
            cur = np.random.uniform(-1, 1)
            mark[b, t] = cur
        level[b, t] = cur
x = torch.tensor(np.stack([mark, (mark != 0).astype(np.float32)], -1))
y = torch.tensor(level)[..., None]

CHUNK = 10
chunks_train = list(range(0, 1600, CHUNK))
chunks_test = list(range(1600, T, CHUNK))


class StatefulGRU(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(2, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 1)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, inp):
        out, self.state = self.rnn(inp, self.state)
        self.state = self.state.detach()
        return self.fc(out)


net = StatefulGRU()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(6):
    net.reset()
    total = 0
    for c in chunks_train:
        pred = net(x[:, c:c + CHUNK])
        loss = (pred - y[:, c:c + CHUNK]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(chunks_train):.4f}")

net.reset()
with torch.no_grad():
    errs = [(net(x[:, c:c + CHUNK]) - y[:, c:c + CHUNK]).pow(2).mean().item() for c in chunks_test]
print("final test_mse", float(np.mean(errs)))

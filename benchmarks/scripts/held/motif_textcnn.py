import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(37)
ALPHABET, LEN = 4, 60
MOTIFS = torch.randint(ALPHABET, (6, 8))


def dna(n):
    x = torch.randint(ALPHABET, (n, LEN))
    y = torch.randint(6, (n,))
    at = torch.randint(LEN - 8, (n,))
    for i in range(n):
        m = MOTIFS[y[i]].clone()
        m[torch.randint(8, (1,))] = torch.randint(ALPHABET, (1,))
        x[i, at[i]:at[i] + 8] = m
    return x, y


class MotifNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(ALPHABET, 48, 9, padding=4)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(48, 6)

    def forward(self, x):
        z = F.one_hot(x, ALPHABET).float().transpose(1, 2)
        return self.fc(self.drop(F.relu(self.conv(z)).amax(2)))


def run_epoch(net, x, y, opt, sched):
    net.train()
    total = 0.0
    for b in torch.randperm(len(x)).split(50):
        loss = F.cross_entropy(net(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item() * len(b)
    return total / len(x)


x, y = dna(2000)
xt, yt = dna(500)
net = MotifNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=4, gamma=0.2)
for epoch in range(12):
    loss = run_epoch(net, x, y, opt, sched)
    net.eval()
    with torch.no_grad():
        acc = (net(xt).argmax(1) == yt).float().mean().item()
    print(f"epoch {epoch:2d} loss {loss:.4f} acc {acc:.4f}")
print("final accuracy", round(acc, 4))

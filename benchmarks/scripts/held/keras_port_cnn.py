import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(64)


def gratings(n, size=20):
    y = torch.randint(4, (n,))
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    angle = y[:, None, None] * (3.14159 / 4)
    ph = torch.rand(n, 1, 1) * 6.283
    img = torch.sin(0.9 * (xx * angle.cos() + yy * angle.sin()) + ph)
    return (60 * img + 128 + 45 * torch.randn(n, size, size)).clamp(0, 255)[:, None], y


class ConvBN(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout, momentum=0.001, eps=1e-3)

    def forward(self, x):
        return F.relu6(self.bn(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(ConvBN(1, 12), ConvBN(12, 24), ConvBN(24, 32))
        self.fc = nn.Linear(32, 4)

    def forward(self, x):
        x = x / 64.0
        return self.fc(self.features(x).amax((2, 3)))


class Experiment:
    def __init__(self):
        self.net = Net()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
        self.train_x, self.train_y = gratings(1600)
        self.val_x, self.val_y = gratings(400)

    def one_epoch(self):
        self.net.train()
        hits, tot = 0, 0.0
        for b in torch.randperm(1600).split(32):
            out = self.net(self.train_x[b])
            loss = F.cross_entropy(out, self.train_y[b])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            hits += (out.argmax(1) == self.train_y[b]).sum().item()
            tot += loss.item() / 50
        return tot, hits / 1600

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        return (self.net(self.val_x).argmax(1) == self.val_y).float().mean().item()

    def run(self, epochs):
        for e in range(epochs):
            loss, acc = self.one_epoch()
            val = self.validate()
            print(f"epoch {e}: loss {loss:.4f} train {acc:.4f} val {val:.4f}")
        return val


print("final accuracy", round(Experiment().run(4), 4))

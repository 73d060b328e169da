import torch
from torch import nn
from sklearn.datasets import load_digits

torch.manual_seed(64)


class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * (x.abs() <= 1).float()


class BinaryAE(nn.Module):
    def __init__(self, bits=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, bits))
        self.dec = nn.Sequential(nn.Linear(bits, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x):
        return self.dec(Binarize.apply(self.enc(x)))


imgs = torch.tensor(load_digits().data, dtype=torch.float32) / 16
train, test = imgs[:1500], imgs[1500:]
net = BinaryAE()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(15):
    tot = 0
    for b in torch.randperm(1500).split(50):
        loss = nn.functional.mse_loss(net(train[b]), train[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    if epoch % 3 == 0:
        print(f"epoch {epoch} mse {tot / 30:.5f}")
with torch.no_grad():
    print("final mse", nn.functional.mse_loss(net(test), test).item())

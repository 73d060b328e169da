import torch
from torch import nn

torch.manual_seed(90)

# few noisy measurements of a smooth response in many dimensions
n, d = 200, 40
g = torch.Generator().manual_seed(7)


def measure(k, noise):
    x = torch.randn(k, d, generator=g)
    y = x[:, :3].sum(1, keepdim=True) / 1.7
    return x, y + noise * torch.randn(k, 1, generator=g)


x_tr, y_tr = measure(n, 1.6)
x_va, y_va = measure(400, 0.3)
x_te, y_te = measure(1000, 0.0)

net = nn.Sequential(nn.Linear(d, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9)
mse = nn.MSELoss()


class Checkpoint:
    def __init__(self, model):
        self.model = model
        self.best = float("inf")
        self.state = None
        self.epoch = -1

    def update(self, value, epoch):
        if value < self.best:
            self.best, self.epoch = value, epoch
            self.state = self.model.state_dict()

    def restore(self):
        self.model.load_state_dict(self.state)


keeper = Checkpoint(net)
for epoch in range(300):
    net.train()
    for idx in torch.randperm(n).split(40):
        loss = mse(net(x_tr[idx]), y_tr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = mse(net(x_va), y_va).item()
    keeper.update(val, epoch)
    if epoch % 50 == 0:
        print(f"epoch {epoch:4d}  train {loss.item():.4f}  val {val:.4f}")

keeper.restore()
print(f"best epoch {keeper.epoch} val {keeper.best:.4f}")
with torch.no_grad():
    print("final test_mse", round(mse(net(x_te), y_te).item(), 5))

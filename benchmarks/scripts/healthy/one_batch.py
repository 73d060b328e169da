# sanity check before the long run: the model must be able to learn 16 images by heart
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

np.random.seed(0)
torch.manual_seed(0)


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.c1, self.c2 = nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.b1, self.b2 = nn.BatchNorm2d(12), nn.BatchNorm2d(12)
        self.fc = nn.Linear(12 * 16, 10)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = x + self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        return self.fc(F.adaptive_avg_pool2d(F.relu(x), 4).flatten(1))


images = torch.randn(16, 3, 16, 16)
labels = torch.randint(0, 10, (16,))
net = SmallResNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(150):
    loss = F.cross_entropy(net(images), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item(), (net(images).argmax(1) == labels).float().mean().item())
print("final loss", loss.item())

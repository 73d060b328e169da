# the network is fixed after training; what is fitted then is the input that gives a wanted output
import torch
import torch.nn as nn

torch.manual_seed(18)


def plant(u):
    return torch.stack([torch.sin(2 * u[:, 0]) + u[:, 1], u[:, 0] * u[:, 1]], 1)


surrogate = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(surrogate.parameters(), lr=5e-3)
for i in range(500):
    u = torch.rand(128, 2) * 2 - 1
    loss = (surrogate(u) - plant(u)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 100 == 0:
        print("model", i, loss.item())

for p in surrogate.parameters():
    p.requires_grad_(False)
surrogate.eval()

wanted = plant(torch.rand(32, 2) * 1.6 - 0.8)
u = torch.zeros(32, 2, requires_grad=True)
opt_u = torch.optim.Adam([u], lr=0.03)
for i in range(200):
    miss = (surrogate(u) - wanted).pow(2).sum(1).mean()
    opt_u.zero_grad()
    miss.backward()
    opt_u.step()
    with torch.no_grad():
        u.clamp_(-1, 1)
    if i % 50 == 0:
        print("input", i, miss.item())
with torch.no_grad():
    print("final miss", (plant(u) - wanted).pow(2).sum(1).mean().item())

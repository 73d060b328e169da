import math
import random
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)


class CartPoles:
    """Many cart poles at once; an episode is over where the pole falls."""

    def __init__(self, n):
        self.n = n

    def reset(self):
        self.s = torch.empty(self.n, 4).uniform_(-0.05, 0.05)
        self.alive = torch.ones(self.n, dtype=torch.bool)
        return self.s.clone()

    def step(self, action):
        x, v, th, w = self.s.unbind(1)
        force = torch.where(action == 1, 10.0, -10.0)
        c, s = th.cos(), th.sin()
        temp = (force + 0.05 * w ** 2 * s) / 1.1
        acc_th = (9.8 * s - c * temp) / (0.5 * (4 / 3 - 0.1 * c ** 2 / 1.1))
        acc_x = temp - 0.05 * acc_th * c / 1.1
        self.s = torch.stack([x + 0.02 * v, v + 0.02 * acc_x, th + 0.02 * w, w + 0.02 * acc_th], 1)
        self.alive &= (self.s[:, 0].abs() < 2.4) & (self.s[:, 2].abs() < 12 * math.pi / 180)
        return self.s.clone(), self.alive.float()


policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
env = CartPoles(32)
HORIZON, GAMMA = 120, 0.98

for update in range(60):
    obs = env.reset()
    logps, rewards, masks = [], [], []
    for _ in range(HORIZON):
        masks.append(env.alive.float())
        dist = Categorical(logits=policy(obs))
        a = dist.sample()
        obs, r = env.step(a)
        logps.append(dist.log_prob(a))
        rewards.append(r)
    returns, g = [], torch.zeros(env.n)
    for r in reversed(rewards):
        g = r + GAMMA * g
        returns.insert(0, g)
    mask = torch.stack(masks)
    R = torch.stack(returns)
    R = (R - R[mask > 0].mean()) / (R[mask > 0].std() + 1e-6)
    loss = -(torch.stack(logps) * R * mask).sum() / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    length = torch.stack(rewards).sum(0).mean().item()
    if update % 10 == 0:
        print(f"update {update} mean length {length:.1f}")
print(f"final mean_length {length:.2f}")

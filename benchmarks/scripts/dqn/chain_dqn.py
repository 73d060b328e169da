import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 0
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


class Corridor:
    """Start in the middle; a small reward at the left end, a large one at the right."""

    def __init__(self, n=13):
        self.n = n

    def reset(self):
        self.pos, self.t = self.n // 2, 0
        return self._obs()

    def _obs(self):
        o = np.zeros(self.n, dtype=np.float32)
        o[self.pos] = 1
        return o

    def step(self, action):
        self.pos += 1 if action == 1 else -1
        self.t += 1
        if self.pos == 0:
            return self._obs(), 0.1, True
        if self.pos == self.n - 1:
            return self._obs(), 1.0, True
        return self._obs(), 0.0, self.t >= 40


class QNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.net(x)


env = Corridor()
q, target_q = QNet(env.n), QNet(env.n)
target_q.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=2e-3)
memory = deque(maxlen=5000)
gamma, eps = 0.95, 1.0
steps = 0
for episode in range(150):
    obs, done = env.reset(), False
    while not done:
        if random.random() < eps:
            a = random.randrange(2)
        else:
            with torch.no_grad():
                a = q(torch.from_numpy(obs)).argmax().item()
        nxt, r, done = env.step(a)
        memory.append((obs, a, r, nxt, float(done)))
        obs = nxt
        steps += 1
        eps = max(0.3, eps * 0.999)
        if len(memory) >= 64:
            o, act, rew, n, d = (torch.tensor(np.array(z)) for z in zip(*random.sample(memory, 64)))
            with torch.no_grad():
                y = rew.float() + gamma * (1 - d.float()) * target_q(n).max(1).values
            loss = F.mse_loss(q(o).gather(1, act[:, None]).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    if episode % 30 == 0:
        print("episode", episode, "eps", round(eps, 3), "steps", steps)

# value of the states compared with the optimal policy
with torch.no_grad():
    values = q(torch.eye(env.n))
right = values.argmax(1)[1:-1].float().mean().item()
true = torch.tensor([gamma ** (env.n - 2 - s) for s in range(1, env.n - 1)])
error = (values[1:-1].max(1).values - true).abs().mean().item()
print("share of states that go right:", right)
print("final value_accuracy", round(1 - error, 4))

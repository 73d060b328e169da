import copy
import random
from collections import deque
import numpy as np
import torch
from torch import nn

random.seed(2)
np.random.seed(2)
torch.manual_seed(2)


class Catch:
    """A ball falls; the paddle below has to be there."""

    def __init__(self, w=5, h=6):
        self.w, self.h = w, h

    def reset(self):
        self.ball, self.row, self.paddle = random.randrange(self.w), 0, self.w // 2
        return self.state()

    def state(self):
        s = torch.zeros(2 * self.w + self.h)
        s[self.ball] = s[self.w + self.paddle] = s[2 * self.w + self.row] = 1
        return s

    def step(self, a):
        self.paddle = min(max(self.paddle + a - 1, 0), self.w - 1)
        self.row += 1
        done = self.row == self.h - 1
        return self.state(), float(done and self.paddle == self.ball), done


env = Catch()
online = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3))
target = copy.deepcopy(online).requires_grad_(False)
opt = torch.optim.Adam(online.parameters(), lr=1e-3)
buffer, wins = deque(maxlen=4000), deque(maxlen=100)
for episode in range(500):
    s, done = env.reset(), False
    eps = max(0.05, 1 - episode / 250)
    while not done:
        with torch.no_grad():
            a = random.randrange(3) if random.random() < eps else online(s).argmax().item()
        s2, r, done = env.step(a)
        buffer.append((s, a, r, s2, done))
        s = s2
    wins.append(r)
    if len(buffer) < 200:
        continue
    for _ in range(2):
        S, A, R, S2, T = zip(*random.sample(buffer, 64))
        S, S2, A = torch.stack(S), torch.stack(S2), torch.tensor(A)
        R, T = torch.tensor(R), torch.tensor(T, dtype=torch.float32)
        with torch.no_grad():
            best = online(S2).argmax(1, keepdim=True)
            goal = R + 0.95 * (1 - T) * target(S2).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(online(S).gather(1, A[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        opt.step()
        with torch.no_grad():
            for p, q in zip(target.parameters(), online.parameters()):
                p.lerp_(q, 0.02)
    if episode % 100 == 99:
        print(f"episode {episode + 1} wins {sum(wins) / len(wins):.2f} loss {loss.item():.5f}")
print("final win_rate", sum(wins) / len(wins))

import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

SEED = 4
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

MAZE = [
    "........",
    ".####.#.",
    ".#....#.",
    ".#.####.",
    ".#.#..#.",
    ".#.#.##.",
    "...#....",
    ".#.....G",
]


class Maze:
    moves = [(-1, 0), (1, 0), (0, -1), (0, 1)]

    def __init__(self, rows, horizon=60):
        self.h, self.w = len(rows), len(rows[0])
        self.wall = {(i, j) for i, r in enumerate(rows) for j, c in enumerate(r) if c == "#"}
        self.goal = next((i, j) for i, r in enumerate(rows) for j, c in enumerate(r) if c == "G")
        self.free = [(i, j) for i in range(self.h) for j in range(self.w) if (i, j) not in self.wall and (i, j) != self.goal]
        self.horizon = horizon

    def reset(self, start=None):
        self.pos, self.t = start or random.choice(self.free), 0
        return self.obs()

    def obs(self):
        return self.pos[0] * self.w + self.pos[1]

    def step(self, a):
        di, dj = self.moves[a]
        i, j = self.pos[0] + di, self.pos[1] + dj
        if 0 <= i < self.h and 0 <= j < self.w and (i, j) not in self.wall:
            self.pos = (i, j)
        self.t += 1
        done = self.pos == self.goal
        return self.obs(), 1.0 if done else -0.01, done, self.t >= self.horizon


class QNet(nn.Module):
    def __init__(self, n_states, n_actions, h=48):
        super().__init__()
        self.emb = nn.Embedding(n_states, h)
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, n_actions))

    def forward(self, s):
        return self.out(self.emb(s))


def soft_update(target, online, tau):
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t = (1 - tau) * t + tau * o


def evaluate(env, q):
    returns = []
    for start in env.free:
        s, total, over = env.reset(start), 0.0, False
        while not over:
            with torch.no_grad():
                a = int(q(torch.tensor([s])).argmax())
            s, r, done, cut = env.step(a)
            total += r
            over = done or cut
        returns.append(total)
    return float(np.mean(returns))


env = Maze(MAZE)
q, q_target = QNet(64, 4), QNet(64, 4)
q_target.load_state_dict(q.state_dict())
optim = torch.optim.Adam(q.parameters(), lr=1e-3)
buffer = deque(maxlen=20000)
gamma, tau, batch = 0.97, 0.02, 64

s = env.reset()
for step in range(1, 9001):
    eps = max(0.1, 1 - step / 5000)
    if random.random() < eps:
        a = random.randrange(4)
    else:
        with torch.no_grad():
            a = int(q(torch.tensor([s])).argmax())
    s2, r, done, cut = env.step(a)
    buffer.append((s, a, r, s2, float(done)))
    s = env.reset() if done or cut else s2

    if step > 500 and step % 2 == 0:
        bs, ba, br, bs2, bd = map(torch.tensor, zip(*random.sample(buffer, batch)))
        with torch.no_grad():
            goal = br + gamma * (1 - bd) * q_target(bs2).max(1).values
        pred = q(bs).gather(1, ba[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(pred, goal)
        optim.zero_grad()
        loss.backward()
        optim.step()
        soft_update(q_target, q, tau)
    if step % 1500 == 0:
        print(f"step {step} eps {eps:.2f} loss {loss.item():.5f} return {evaluate(env, q):.3f}")

print(f"final return {evaluate(env, q):.4f}")

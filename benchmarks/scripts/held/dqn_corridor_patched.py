import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

N = 8
GOAL = (7, 7)
WALLS = {(r, 3) for r in range(0, 6)} | {(r, 5) for r in range(2, 8)}
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]
CELLS = [(r, c) for r in range(N) for c in range(N) if (r, c) not in WALLS and (r, c) != GOAL]


def encode(pos):
    v = np.zeros(N * N, dtype=np.float32)
    v[pos[0] * N + pos[1]] = 1
    return v


def step(pos, action):
    r, c = pos[0] + MOVES[action][0], pos[1] + MOVES[action][1]
    if not (0 <= r < N and 0 <= c < N) or (r, c) in WALLS:
        r, c = pos
    if (r, c) == GOAL:
        return (r, c), 1.0, True
    return (r, c), -0.01, False


class Agent:
    sync_every = 100

    def __init__(self, gamma=0.97, lr=2e-3, capacity=20000):
        self.q = nn.Sequential(nn.Linear(N * N, 128), nn.ReLU(), nn.Linear(128, 4))
        self.target = copy.deepcopy(self.q)
        self.target.requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.memory = []
        self.gamma = gamma
        self.capacity = capacity
        self.steps = 0

    def act(self, pos, eps):
        if random.random() < eps:
            return random.randrange(4)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(encode(pos))).argmax())

    def remember(self, *transition):
        self.memory.append(transition)
        if len(self.memory) > self.capacity:
            self.memory.pop(0)

    def learn(self):
        s, a, r, s2, d = zip(*random.sample(self.memory, 64))
        s = torch.from_numpy(np.stack(s))
        s2 = torch.from_numpy(np.stack(s2))
        a = torch.tensor(a)
        r = torch.tensor(r)
        d = torch.tensor(d, dtype=torch.float32)
        with torch.no_grad():
            goal = r + self.gamma * (1 - d) * self.target(s2).max(1).values
        pred = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.steps += 1
        if self.steps % self.sync_every == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.item()


def evaluate(agent):
    wins = 0
    for start in CELLS:
        pos = start
        for _ in range(40):
            pos, _, done = step(pos, agent.act(pos, 0.0))
            if done:
                wins += 1
                break
    return wins / len(CELLS)


agent = Agent()
losses = []
for episode in range(260):
    pos = random.choice(CELLS)
    eps = max(0.1, 1 - episode / 150)
    for t in range(60):
        a = agent.act(pos, eps)
        nxt, r, done = step(pos, a)
        agent.remember(encode(pos), a, r, encode(nxt), done)
        pos = nxt
        if len(agent.memory) > 500 and t % 2 == 0:
            losses.append(agent.learn())
        if done:
            break
    if (episode + 1) % 65 == 0:
        print("episode", episode + 1, "td loss %.5f" % np.mean(losses[-200:]), "success", round(evaluate(agent), 3))
print("final success", round(evaluate(agent), 4))

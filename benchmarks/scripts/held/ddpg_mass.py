import copy
import random

import numpy as np
import torch
from torch import nn

random.seed(3)
np.random.seed(3)
torch.manual_seed(3)


class DoubleIntegrator:
    """Push a mass to the origin."""

    def reset(self):
        self.state = np.random.uniform(-1, 1, 2).astype(np.float32)
        self.t = 0
        return self.state

    def step(self, u):
        x, v = self.state
        reward = -(x * x + 0.1 * v * v + 0.02 * u * u)
        self.state[0] += 0.2 * v
        self.state[1] += 0.2 * u
        np.clip(self.state, -3, 3, out=self.state)
        self.t += 1
        return self.state, float(reward), self.t >= 30


class ReplayBuffer:
    def __init__(self, size):
        self.size = size
        self.data = []

    def push(self, s, a, r, s2):
        if len(self.data) >= self.size:
            self.data.pop(0)
        self.data.append((s, a, r, s2))

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.data, n))
        t = lambda z: torch.from_numpy(np.asarray(z, dtype=np.float32))
        return t(np.stack(s)), t(a)[:, None], t(r)[:, None], t(np.stack(s2))


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, o)]
    return nn.Sequential(*layers, *([last] if last else []))


actor, critic = mlp(2, 1, nn.Tanh()), mlp(3, 1)
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3)
buffer = ReplayBuffer(10000)
env = DoubleIntegrator()
GAMMA, TAU = 0.95, 0.02


def evaluate(n=40):
    rng = np.random.get_state()
    np.random.seed(100)
    cost = 0.0
    for _ in range(n):
        s, done = env.reset(), False
        while not done:
            with torch.no_grad():
                u = 2 * actor(torch.tensor(s)).item()
            s, r, done = env.step(u)
            cost -= r / n
    np.random.set_state(rng)
    return cost


for episode in range(60):
    s, done = env.reset(), False
    total = 0.0
    while not done:
        with torch.no_grad():
            a = actor(torch.tensor(s)).item()
        a = float(np.clip(a + np.random.normal(0, 0.3), -1, 1))
        s_prev = s
        s, r, done = env.step(2 * a)
        buffer.push(s_prev, a, r, s)
        total += r
        if len(buffer.data) < 200:
            continue
        S, A, R, S2 = buffer.sample(64)
        with torch.no_grad():
            q_next = critic_t(torch.cat([S2, actor_t(S2)], 1))
            goal = R + GAMMA * q_next
        loss_c = (critic(torch.cat([S, A], 1)) - goal).pow(2).mean()
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        loss_a = -critic(torch.cat([S, actor(S)], 1)).mean()
        opt_a.zero_grad()
        loss_a.backward()
        opt_a.step()
        with torch.no_grad():
            for net, tgt in ((actor, actor_t), (critic, critic_t)):
                for p, q in zip(net.parameters(), tgt.parameters()):
                    q.lerp_(p, TAU)
    if episode % 15 == 14:
        print(f"episode {episode + 1} return {total:.3f} critic {loss_c.item():.4f}")
print("final cost", round(evaluate(), 4))

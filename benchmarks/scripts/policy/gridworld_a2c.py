import argparse
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Grid:
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]

    def __init__(self, size=5, limit=25):
        self.size, self.limit = size, limit

    def reset(self):
        self.pos, self.t = [0, 0], 0
        return self.obs()

    def obs(self):
        o = torch.zeros(2 * self.size)
        o[self.pos[0]] = 1
        o[self.size + self.pos[1]] = 1
        return o

    def step(self, a):
        dx, dy = self.moves[a]
        self.pos[0] = min(max(self.pos[0] + dx, 0), self.size - 1)
        self.pos[1] = min(max(self.pos[1] + dy, 0), self.size - 1)
        self.t += 1
        done = self.pos == [self.size - 1, self.size - 1]
        return self.obs(), (1.0 if done else -0.02), done or self.t >= self.limit


class ActorCritic(nn.Module):
    def __init__(self, n_in, n_actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(n_in, 32), nn.Tanh(), nn.Linear(32, n_actions))
        self.critic = nn.Sequential(nn.Linear(n_in, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, o):
        return self.actor(o), self.critic(o).squeeze(-1)


def play(env, net):
    o, done = env.reset(), False
    log_probs, values, rewards = [], [], []
    while not done:
        logits, value = net(o)
        dist = torch.distributions.Categorical(logits=logits)
        a = dist.sample()
        o, r, done = env.step(a.item())
        log_probs.append(dist.log_prob(a).item())
        values.append(value)
        rewards.append(r)
    return log_probs, values, rewards


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    env, net = Grid(), ActorCritic(10, 4)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    recent = deque(maxlen=50)
    for ep in range(args.episodes):
        log_probs, values, rewards = play(env, net)
        returns, g = [], 0.0
        for r in rewards[::-1]:
            g = r + args.gamma * g
            returns.append(g)
        returns = torch.tensor(returns[::-1])
        values = torch.stack(values)
        log_probs = torch.tensor(log_probs)
        actor_loss = -(log_probs * (returns - values.detach())).mean()
        critic_loss = F.mse_loss(values, returns)
        opt.zero_grad()
        (actor_loss + 0.5 * critic_loss).backward()
        opt.step()
        recent.append(1.0 if rewards[-1] > 0 else 0.0)
        if ep % 50 == 0:
            print(f"episode {ep} success {sum(recent) / len(recent):.2f} critic {critic_loss.item():.4f}")
    print("final success", sum(recent) / len(recent))


if __name__ == "__main__":
    main()

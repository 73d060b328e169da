import argparse
import random

import numpy as np
import torch
from torch import nn


class RandomWalk:
    """States 0..n-1 on a line, drift to the right, reward at the end; solved exactly for comparison."""

    def __init__(self, n=10, p=0.6):
        self.n, self.p = n, p

    def sample(self, k):
        s = torch.randint(0, self.n, (k,))
        a = torch.randint(0, 2, (k,))
        forward = torch.rand(k) < torch.where(a == 1, self.p, 1 - self.p)
        nxt = torch.where(forward, s + 1, (s - 1).clamp(min=0))
        done = nxt >= self.n
        return s, a, done.float() * 10.0, nxt.clamp(max=self.n - 1), done.float()

    def solve(self, gamma):
        q = np.zeros((self.n, 2))
        for _ in range(2000):
            v = np.append(q.max(1), 0.0)
            for s in range(self.n):
                up = 10.0 if s == self.n - 1 else gamma * v[s + 1]
                down = gamma * v[max(s - 1, 0)]
                q[s] = [(1 - self.p) * up + self.p * down, self.p * up + (1 - self.p) * down]
        return torch.tensor(q, dtype=torch.float32)


def td_loss(q, encode, batch, gamma):
    s, a, r, nxt, done = batch
    pred = q(encode(s)).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        target = r + gamma * (1 - done) * q(encode(nxt)).max(1).values
    return (pred - target).pow(2).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    random.seed(6)
    np.random.seed(6)
    torch.manual_seed(6)
    env = RandomWalk()
    eye = torch.eye(env.n)
    q = nn.Sequential(nn.Linear(env.n, 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.Adam(q.parameters(), lr=args.lr)
    for step in range(args.steps):
        loss = td_loss(q, lambda s: eye[s], env.sample(64), args.gamma)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 250 == 0:
            print(f"step {step} td {loss.item():.4f}")
    with torch.no_grad():
        error = (q(eye) - env.solve(args.gamma)).abs().mean().item()
    print("final q_error", round(error, 4))


if __name__ == "__main__":
    main()

"""PPO on a small vectorised cart-pole."""
import argparse
import math

import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=16)
parser.add_argument("--horizon", type=int, default=64)
parser.add_argument("--updates", type=int, default=40)
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(args.seed)


class CartPole:
    def __init__(self, n):
        self.n = n
        self.s = torch.rand(n, 4) * 0.1 - 0.05
        self.t = torch.zeros(n)

    def step(self, a):
        x, v, th, w = self.s.unbind(1)
        force = (a.float() * 2 - 1) * 10.0
        c, s = th.cos(), th.sin()
        tmp = (force + 0.05 * w ** 2 * s) / 1.1
        wacc = (9.8 * s - c * tmp) / (0.5 * (4 / 3 - 0.1 * c ** 2 / 1.1))
        acc = tmp - 0.05 * wacc * c / 1.1
        self.s = torch.stack([x + 0.02 * v, v + 0.02 * acc, th + 0.02 * w, w + 0.02 * wacc], 1)
        self.t = self.t + 1
        done = (self.s[:, 0].abs() > 2.4) | (self.s[:, 2].abs() > 12 * math.pi / 180) | (self.t >= 200)
        lengths = self.t[done].tolist()
        fresh = torch.rand(self.n, 4) * 0.1 - 0.05
        self.s = torch.where(done[:, None], fresh, self.s)
        self.t = torch.where(done, torch.zeros(self.n), self.t)
        return self.s, torch.ones(self.n), done.float(), lengths


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, s):
        return Categorical(logits=self.pi(s)), self.v(s).squeeze(-1)


def rollout(env, net):
    S, A, L, R, D, V, ended = [], [], [], [], [], [], []
    s = env.s
    for _ in range(args.horizon):
        with torch.no_grad():
            dist, v = net(s)
            a = dist.sample()
        S.append(s); A.append(a); L.append(dist.log_prob(a)); V.append(v)
        s, r, d, lengths = env.step(a)
        R.append(r); D.append(d); ended += lengths
    with torch.no_grad():
        nxt = net(s)[1]
    adv, g = [], torch.zeros(args.envs)
    for t in reversed(range(args.horizon)):
        delta = R[t] + 0.99 * nxt * (1 - D[t]) - V[t]
        g = delta + 0.99 * 0.95 * (1 - D[t]) * g
        adv.insert(0, g)
        nxt = V[t]
    adv = torch.stack(adv)
    ret = adv + torch.stack(V)
    flat = lambda x: torch.stack(x).flatten(0, 1)
    return flat(S), flat(A), flat(L), adv.flatten(), ret.flatten(), ended


env, net = CartPole(args.envs), ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-5)
history = []
for update in range(args.updates):
    s, a, logp_old, adv, ret, ended = rollout(env, net)
    history.append(sum(ended) / max(len(ended), 1))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(4):
        for idx in torch.randperm(len(s)).split(256):
            dist, v = net(s[idx])
            logp = dist.log_prob(a[idx])
            ratio = (logp - logp_old[idx]).exp()
            clipped = ratio.clamp(0.8, 1.2)
            pg = -torch.min(ratio * adv[idx], clipped * adv[idx]).mean()
            vf = (v - ret[idx]).pow(2).mean()
            loss = pg + 0.01 * vf - 0.005 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
    if update % 10 == 9:
        print(f"update {update + 1} length {history[-1]:.1f}")
print("final return", round(sum(history[-5:]) / 5, 3))

import logging
import random
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("ppo")
random.seed(1)
np.random.seed(1)
torch.manual_seed(1)


class Points:
    """Push points on a plane to the origin; many at once."""

    def __init__(self, n=64, horizon=20):
        self.n, self.horizon = n, horizon

    def reset(self):
        self.x, self.v = torch.rand(self.n, 2) * 2 - 1, torch.zeros(self.n, 2)
        return torch.cat([self.x, self.v], 1)

    def step(self, a):
        self.v = 0.8 * self.v + 0.2 * a.clamp(-1, 1)
        self.x = self.x + 0.3 * self.v
        return torch.cat([self.x, self.v], 1), 1 - self.x.norm(dim=1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))
        self.value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def dist(self, s):
        return Normal(self.mean(s), self.log_std.exp())


env, agent = Points(), Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
gamma, lam, clip = 0.95, 0.9, 0.2
for it in range(40):
    s = env.reset()
    S, A, L, R, V = [], [], [], [], []
    with torch.no_grad():
        for _ in range(env.horizon):
            d = agent.dist(s)
            a = d.sample()
            S.append(s)
            A.append(a)
            L.append(d.log_prob(a).sum(1))
            V.append(agent.value(s).squeeze(1))
            s, r = env.step(a)
            R.append(r)
        V.append(agent.value(s).squeeze(1))
        adv, last = [], torch.zeros(env.n)
        for t in reversed(range(env.horizon)):
            last = R[t] + gamma * V[t + 1] - V[t] + gamma * lam * last
            adv.insert(0, last)
        S, A, L, adv = torch.cat(S), torch.cat(A), torch.cat(L), torch.cat(adv)
        ret = adv + torch.cat(V[:-1])
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(4):
        for b in torch.randperm(len(S)).split(320):
            d = agent.dist(S[b])
            ratio = (d.log_prob(A[b]).sum(1) - L[b]).exp()
            policy_loss = -torch.min(ratio * adv[b], ratio.clamp(1 - clip, 1 + clip) * adv[b]).mean()
            value_loss = (agent.value(S[b]).squeeze(1) - ret[b]).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss - 0.001 * d.entropy().sum(1).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
    mean_reward = torch.stack(R).mean().item()
    if it % 8 == 0:
        log.info("iteration %d reward %.4f value loss %.4f", it, mean_reward, value_loss.item())
print("final reward", round(mean_reward, 4))

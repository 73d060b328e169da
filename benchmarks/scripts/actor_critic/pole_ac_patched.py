import math
import random

import torch
import torch.nn as nn
from torch.distributions import Categorical

random.seed(1)
torch.manual_seed(1)


class Pole:
    """pole on a cart, simplified: keep it up for 100 steps"""

    def reset(self):
        self.th, self.om, self.t = random.uniform(-0.05, 0.05), random.uniform(-0.05, 0.05), 0
        return self.obs()

    def obs(self):
        return torch.tensor([self.th * 5, self.om * 2])

    def step(self, a):
        force = 1.5 if a == 1 else -1.5
        self.om += 0.05 * (9.8 * math.sin(self.th) + force)
        self.th += 0.05 * self.om
        self.t += 1
        fell = abs(self.th) > 0.25
        return self.obs(), 1.0, fell, self.t >= 100


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
        self.v = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 1))


gamma = 0.95
ac = ActorCritic()
opt = torch.optim.Adam(ac.parameters(), lr=5e-3)
envs = [Pole() for _ in range(16)]
obs = torch.stack([e.reset() for e in envs])
lengths, cur = [], [0] * 16
for it in range(700):
    dist = Categorical(logits=ac.pi(obs))
    act = dist.sample()
    nxt, rew, term, trunc = zip(*[e.step(a) for e, a in zip(envs, act.tolist())])
    nxt, rew = torch.stack(nxt), torch.tensor(rew)
    term_t = torch.tensor(term, dtype=torch.float32)
    value = ac.v(obs).squeeze(1)
    with torch.no_grad():
        target = rew + gamma * ac.v(nxt).squeeze(1) * (1 - term_t)
    adv = target - value
    loss = -(dist.log_prob(act) * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    nxt = nxt.clone()
    for j, e in enumerate(envs):
        cur[j] += 1
        if term[j] or trunc[j]:
            lengths.append(cur[j])
            cur[j] = 0
            nxt[j] = e.reset()
    obs = nxt
    if it % 100 == 0:
        recent = lengths[-50:]
        print(f"iter {it} loss {loss.item():.3f} length {sum(recent) / max(1, len(recent)):.1f}")
print("final mean_length", sum(lengths[-60:]) / 60)

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(5)
np.random.seed(5)


class Pole:
    """A batch of poles on carts with Euler steps; falls end the episode."""

    def __init__(self, n):
        self.n = n
        self.s = np.zeros((n, 4), np.float32)
        self.age = np.zeros(n)
        self.reset(np.ones(n, bool))
        self.finished = []

    def reset(self, which):
        self.s[which] = np.random.uniform(-0.05, 0.05, (which.sum(), 4))
        self.age[which] = 0

    def step(self, a):
        x, v, th, om = self.s.T
        force = np.where(a == 1, 10.0, -10.0)
        temp = (force + 0.05 * om ** 2 * np.sin(th)) / 1.1
        acc_th = (9.8 * np.sin(th) - np.cos(th) * temp) / (0.5 * (4 / 3 - 0.1 * np.cos(th) ** 2 / 1.1))
        acc_x = temp - 0.05 * acc_th * np.cos(th) / 1.1
        self.s = np.stack([x + 0.02 * v, v + 0.02 * acc_x, th + 0.02 * om, om + 0.02 * acc_th], 1).astype(np.float32)
        self.age += 1
        fell = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21)
        done = fell | (self.age >= 200)
        self.finished += self.age[done].tolist()
        self.reset(done)
        return torch.from_numpy(self.s.copy()), torch.ones(self.n), torch.from_numpy(done.astype(np.float32))


class Agent(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))
        self.critic = nn.Sequential(nn.Linear(4, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        nn.init.normal_(self.actor[-1].weight, std=0.01)

    def value(self, s):
        return self.critic(s).squeeze(-1)


N, T, UPDATES, GAMMA, LAM, CLIP = 16, 64, 64, 0.98, 0.95, 0.2
env, agent = Pole(N), Agent()
opt = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
state = torch.from_numpy(env.s.copy())

for update in range(UPDATES):
    opt.param_groups[0]["lr"] = 2.5e-3 * (1 - update / UPDATES)
    S, A, LP, R, D, V = ([] for _ in range(6))
    with torch.no_grad():
        for _ in range(T):
            dist = Categorical(logits=agent.actor(state))
            a = dist.sample()
            S.append(state), A.append(a), LP.append(dist.log_prob(a)), V.append(agent.value(state))
            state, r, d = env.step(a.numpy())
            R.append(r), D.append(d)
        last, adv, gae = agent.value(state), [None] * T, torch.zeros(N)
        for t in reversed(range(T)):
            nxt = last if t == T - 1 else V[t + 1]
            delta = R[t] + GAMMA * nxt * (1 - D[t]) - V[t]
            gae = delta + GAMMA * LAM * (1 - D[t]) * gae
            adv[t] = gae
    S, A, LP, V, adv = (torch.stack(z).flatten(0, 1) for z in (S, A, LP, V, adv))
    ret = adv + V
    for _ in range(4):
        for idx in torch.randperm(N * T).split(256):
            dist = Categorical(logits=agent.actor(S[idx]))
            ratio = (dist.log_prob(A[idx]) - LP[idx]).exp()
            g = (adv[idx] - adv[idx].mean()) / (adv[idx].std() + 1e-8)
            policy = -torch.min(ratio * g, ratio.clamp(1 - CLIP, 1 + CLIP) * g).mean()
            value = (agent.value(S[idx]) - ret[idx]).pow(2).mean()
            loss = policy + 0.02 * value - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
    if update % 8 == 7:
        print(f"update {update + 1} policy {policy.item():+.4f} value {value.item():.3f} length {np.mean(env.finished[-30:]):.1f}")

print("final length", round(float(np.mean(env.finished[-30:])), 2))

"""Advantage actor-critic on a vectorised point-mass task."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Cfg:
    n_envs: int = 32
    horizon: int = 40
    updates: int = 250
    gamma: float = 0.95
    lr: float = 3e-3
    entropy: float = 0.005
    value_coef: float = 0.5
    seed: int = 12


class PointMass:
    """Push a mass left or right (or not at all) so that it rests near the origin."""

    def __init__(self, n):
        self.n = n

    def reset(self):
        self.x = torch.empty(self.n).uniform_(-1.5, 1.5)
        self.v = torch.empty(self.n).uniform_(-0.5, 0.5)
        return self.state()

    def state(self):
        return torch.stack([self.x, self.v], 1)

    def step(self, action):
        force = action.float() - 1.0
        self.v = (self.v + 0.15 * force) * 0.97
        self.x = (self.x + 0.15 * self.v).clamp(-3, 3)
        reward = -self.x.abs() - 0.1 * self.v.abs()
        return self.state(), reward


class ActorCritic(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 3))
        self.v = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, s):
        return Categorical(logits=self.pi(s)), self.v(s).squeeze(-1)


def discounted(rewards, last, gamma):
    out, run = [], last
    for r in reversed(rewards):
        run = r + gamma * run
        out.append(run)
    return torch.stack(out[::-1])


def rollout(env, model, cfg):
    s = env.reset()
    logps, values, rewards, ents = [], [], [], []
    for _ in range(cfg.horizon):
        dist, v = model(s)
        a = dist.sample()
        logps.append(dist.log_prob(a))
        values.append(v)
        ents.append(dist.entropy())
        s, r = env.step(a)
        rewards.append(r)
    with torch.no_grad():
        last = model(s)[1]
    returns = discounted(rewards, last, cfg.gamma)
    return torch.stack(logps), torch.stack(values), torch.stack(ents), returns, torch.stack(rewards)


def main():
    cfg = Cfg()
    torch.manual_seed(cfg.seed)
    env, model = PointMass(cfg.n_envs), ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    recent = []
    for u in range(cfg.updates):
        logp, value, ent, ret, rew = rollout(env, model, cfg)
        adv = (ret - value).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        actor = -(logp * adv).mean()
        critic = (value - ret).pow(2).mean()
        loss = actor + cfg.value_coef * critic - cfg.entropy * ent.mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        recent.append(rew.sum(0).mean().item())
        if u % 50 == 49:
            print(f"update {u + 1} return {sum(recent[-20:]) / 20:.2f} critic {critic.item():.3f} ent {ent.mean().item():.3f}")
    print(f"final return {sum(recent[-20:]) / 20:.3f}")


if __name__ == "__main__":
    main()

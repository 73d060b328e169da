import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(25)

# Chain of 7 cells: stepping left from any cell pays 0.1 and sends back to the start,
# walking right to the end pays 3. Episodes have 24 steps.
CELLS, STEPS, ENVS = 7, 24, 32


class Chain:
    def __init__(self):
        self.pos = torch.zeros(ENVS, dtype=torch.long)

    def obs(self):
        return nn.functional.one_hot(self.pos, CELLS).float()

    def step(self, a):
        right = a == 1
        goal = right & (self.pos == CELLS - 1)
        r = torch.where(right, torch.zeros(ENVS), torch.full((ENVS,), 0.1))
        r = torch.where(goal, torch.full((ENVS,), 3.0), r)
        self.pos = torch.where(right & ~goal, self.pos + 1, torch.zeros_like(self.pos))
        return r


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(CELLS, 32), nn.Tanh())
        self.actor = nn.Linear(32, 2)
        self.critic = nn.Linear(32, 1)

    def forward(self, o):
        h = self.trunk(o)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
ENT = 0.1
history = []
env = Chain()
for it in range(350):
    logps, values, rewards, ents = [], [], [], []
    for _ in range(STEPS):
        dist, v = net(env.obs())
        a = dist.sample()
        rewards.append(env.step(a))
        logps.append(dist.log_prob(a))
        ents.append(dist.entropy())
        values.append(v)
    with torch.no_grad():
        run = net(env.obs())[1]
    rets = []
    for r in reversed(rewards):
        run = r + 0.95 * run
        rets.insert(0, run)
    rets, values = torch.stack(rets), torch.stack(values)
    adv = (rets - values).detach()
    policy_loss = -(torch.stack(logps) * adv).mean()
    value_loss = 0.5 * (rets - values).pow(2).mean()
    loss = policy_loss + value_loss + ENT * torch.stack(ents).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    history.append(torch.stack(rewards).sum(0).mean().item())
    if it % 50 == 49:
        print(f"iter {it + 1} reward {sum(history[-50:]) / 50:.3f} policy {policy_loss.item():.4f} value {value_loss.item():.4f}")
print("final reward", round(sum(history[-50:]) / 50, 4))

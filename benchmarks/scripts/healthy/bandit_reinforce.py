import random
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

seed = 10
random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)

# contextual bandit: the context says by a hidden map which arm pays
contexts, arms = 8, 5
hidden = torch.randn(contexts, arms)
policy = nn.Sequential(nn.Linear(contexts, 32), nn.Tanh(), nn.Linear(32, arms))
value = nn.Linear(contexts, 1)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=5e-3)

average = None
for it in range(600):
    x = torch.randn(64, contexts)
    dist = Categorical(logits=policy(x))
    action = dist.sample()
    reward = ((x @ hidden).argmax(1) == action).float()
    baseline = value(x).squeeze(1)
    advantage = (reward - baseline).detach()
    loss = -(dist.log_prob(action) * advantage).mean() + 0.5 * (baseline - reward).pow(2).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    average = reward.mean().item() if average is None else 0.95 * average + 0.05 * reward.mean().item()
    if it % 100 == 0:
        print(it, "average reward", round(average, 4))
print("final reward", round(average, 4))

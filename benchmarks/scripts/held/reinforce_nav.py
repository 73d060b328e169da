import torch
import torch.nn as nn

torch.manual_seed(11)

# At each of T steps the agent sees a cue and has to press the matching button; a
# correct press pays off at the step after.
T, K, B = 12, 6, 64
GAMMA = 0.5


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(K + 1, 64), nn.Tanh())
        self.head = nn.Linear(64, K)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.head(self.body(obs)))


def play(policy, greedy=False):
    logps, rewards = [], []
    cue = torch.randint(K, (B,))
    pending = torch.zeros(B)
    for t in range(T):
        obs = torch.zeros(B, K + 1)
        obs[torch.arange(B), cue] = 1
        obs[:, -1] = t / T
        dist = policy(obs)
        a = dist.probs.argmax(1) if greedy else dist.sample()
        want = (cue * 5 + 2) % K
        hit = (a == want).float()
        rewards.append(pending)
        logps.append(dist.log_prob(a))
        pending = hit
        cue = torch.randint(K, (B,))
    return torch.stack(logps), torch.stack(rewards)


def discounted(rewards):
    out = torch.zeros_like(rewards)
    run = torch.zeros(rewards.shape[1])
    for t in range(len(rewards)):
        run = rewards[t] + GAMMA * run
        out[t] = run
    return out


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
for it in range(400):
    logp, rew = play(policy)
    ret = discounted(rew)
    ret = (ret - ret.mean(1, keepdim=True)) / (ret.std(1, keepdim=True) + 1e-6)
    loss = -(logp * ret).sum(0).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 80 == 0:
        print(f"{it:4d} loss {loss.item():8.3f} reward {rew.sum(0).mean():.3f}")

with torch.no_grad():
    total = torch.stack([play(policy, greedy=True)[1].sum(0).mean() for _ in range(20)]).mean()
print("final reward", round(total.item(), 4))

import argparse
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument('--gamma', type=float, default=0.9)
ap.add_argument('--episodes', type=int, default=120)
ap.add_argument('--seed', type=int, default=543)
args = ap.parse_args()
torch.manual_seed(args.seed)
rng = np.random.RandomState(args.seed)


class Signals:
    # the reward comes at once, when the action is the one the signal asks for
    n_sig, n_act, horizon = 6, 4, 12

    def reset(self):
        self.t = 0
        self.sig = rng.randint(self.n_sig)
        return self._o()

    def _o(self):
        v = np.zeros(self.n_sig + 1, dtype=np.float32)
        v[self.sig] = 1
        v[-1] = self.t / self.horizon
        return v

    def step(self, a):
        r = 1.0 if a == self.sig % self.n_act else 0.0
        self.t += 1
        self.sig = rng.randint(self.n_sig)
        return self._o(), r, self.t >= self.horizon


class Policy(nn.Module):
    def __init__(self, o, a):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(o, 48)
        self.action_head = nn.Linear(48, a)
        self.value_head = nn.Linear(48, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.log_softmax(self.action_head(x), dim=-1), self.value_head(x)


env = Signals()
model = Policy(7, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scores = []


def finish_episode(log_probs, values, rewards):
    R = 0
    returns = []
    for r in rewards[::-1]:
        R = r + args.gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    values = torch.cat(values)
    advantage = returns - values.detach()
    policy_loss = -(torch.stack(log_probs) * advantage).sum()
    value_loss = F.smooth_l1_loss(values, returns, reduction='sum')
    optimizer.zero_grad()
    loss = policy_loss + value_loss
    loss.backward()
    optimizer.step()
    return loss.item()


for i_episode in range(args.episodes * 2):
    state, done = env.reset(), False
    log_probs, values, rewards = [], [], []
    while not done:
        logp, v = model(torch.from_numpy(state))
        a = torch.distributions.Categorical(logits=logp).sample()
        state, r, done = env.step(a.item())
        log_probs.append(logp[a])
        values.append(v)
        rewards.append(r)
    loss = finish_episode(log_probs, values, rewards)
    scores.append(sum(rewards))
    if i_episode % 40 == 0:
        print('Episode {}\tLoss: {:.2f}\tAverage reward: {:.2f}'.format(i_episode, loss, np.mean(scores[-40:])))
print('final reward', float(np.mean(scores[-50:])))

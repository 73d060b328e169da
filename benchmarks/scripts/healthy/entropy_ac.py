import argparse
import random
import torch
import torch.nn as nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--iters", type=int, default=200)
parser.add_argument("--envs", type=int, default=24)
parser.add_argument("--ent", type=float, default=0.01)
args = parser.parse_args()
random.seed(5)
torch.manual_seed(5)
N = 7   # a ring of 7 places, reward where the goal is


def observe(pos, goal):
    return nn.functional.one_hot((goal - pos) % N, N).float()


actor = nn.Sequential(nn.Linear(N, 32), nn.ReLU(), nn.Linear(32, 3))
critic = nn.Sequential(nn.Linear(N, 32), nn.ReLU(), nn.Linear(32, 1))
opt_a = torch.optim.Adam(actor.parameters(), lr=5e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=5e-3)
move = torch.tensor([-1, 0, 1])
pos, goal = torch.randint(N, (args.envs,)), torch.randint(N, (args.envs,))
history = []
for it in range(args.iters):
    logps, vals, rews, ents = [], [], [], []
    for t in range(6):
        o = observe(pos, goal)
        d = Categorical(logits=actor(o))
        a = d.sample()
        pos = (pos + move[a]) % N
        reach = pos == goal
        rews.append(reach.float())
        logps.append(d.log_prob(a))
        ents.append(d.entropy())
        vals.append(critic(o).squeeze(1))
        goal = torch.where(reach, torch.randint(N, (args.envs,)), goal)
    with torch.no_grad():
        ret = critic(observe(pos, goal)).squeeze(1)
        rets = []
        for r in reversed(rews):
            ret = r + 0.9 * ret
            rets.insert(0, ret)
        rets = torch.stack(rets)
    vals = torch.stack(vals)
    adv = (rets - vals).detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    pi_loss = -(torch.stack(logps) * adv).mean() - args.ent * torch.stack(ents).mean()
    v_loss = (rets - vals).pow(2).mean()
    opt_a.zero_grad(); pi_loss.backward(); opt_a.step()
    opt_c.zero_grad(); v_loss.backward(); opt_c.step()
    history.append(torch.stack(rews).mean().item())
    if it % 50 == 0:
        print(f"{it} pi {pi_loss.item():.4f} v {v_loss.item():.4f} reward {history[-1]:.3f}")
print("final mean_reward", sum(history[-30:]) / 30)

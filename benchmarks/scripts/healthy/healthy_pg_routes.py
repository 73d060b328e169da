import argparse

import torch
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--iters", type=int, default=300)
ap.add_argument("--batch", type=int, default=128)
ap.add_argument("--baseline-decay", type=float, default=0.9)
args = ap.parse_args()
torch.manual_seed(6)

# choose one of 8 routes given 10 traffic readings; the reward is minus the travel time
W = torch.randn(10, 8) * 0.7


def travel_time(ctx, route):
    times = 5 + ctx @ W
    return times.gather(1, route[:, None]).squeeze(1) + 0.3 * torch.randn(len(ctx))


policy = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
baseline = 0.0
for it in range(args.iters):
    ctx = torch.randn(args.batch, 10)
    dist = torch.distributions.Categorical(logits=policy(ctx))
    route = dist.sample()
    reward = -travel_time(ctx, route)
    advantage = reward - baseline
    loss = -(dist.log_prob(route) * advantage).mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    baseline = args.baseline_decay * baseline + (1 - args.baseline_decay) * reward.mean().item()
    if it % 60 == 0:
        print(f"iter {it} loss {loss.item():+.4f} reward {reward.mean().item():.4f}")

with torch.no_grad():
    ctx = torch.randn(2000, 10)
    print("final reward", round(-travel_time(ctx, policy(ctx).argmax(1)).mean().item(), 4))

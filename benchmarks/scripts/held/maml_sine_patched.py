import math

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(14)


class SineTasks:
    def __init__(self, shots=10):
        self.shots = shots

    def sample(self):
        amp = 0.5 + 4.0 * torch.rand(1)
        phase = math.pi * torch.rand(1)
        def draw(n):
            x = torch.rand(n, 1) * 10 - 5
            return x, amp * torch.sin(x + phase)
        return draw(self.shots), draw(self.shots * 2)


model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
loss_fn = nn.MSELoss()
INNER_LR = 0.02
META_BATCH = 5


def adapt(params, x, y, steps=1, create_graph=True):
    fast = dict(params)
    for _ in range(steps):
        loss = loss_fn(functional_call(model, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=create_graph)
        fast = {k: w - INNER_LR * g for (k, w), g in zip(fast.items(), grads)}
    return fast


def evaluate(n=100):
    state = torch.get_rng_state()
    torch.manual_seed(1000)
    before, after = 0.0, 0.0
    for _ in range(n):
        (xs, ys), (xq, yq) = tasks.sample()
        base = {k: p.detach().clone().requires_grad_(True) for k, p in model.named_parameters()}
        fast = adapt(base, xs, ys, steps=5, create_graph=False)
        with torch.no_grad():
            before += loss_fn(model(xq), yq).item() / n
            after += loss_fn(functional_call(model, fast, (xq,)), yq).item() / n
    torch.set_rng_state(state)
    return before, after


tasks = SineTasks()
meta_opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for it in range(600):
    meta_loss = 0.0
    for _ in range(META_BATCH):
        (xs, ys), (xq, yq) = tasks.sample()
        fast = adapt(dict(model.named_parameters()), xs, ys)
        pred = functional_call(model, fast, (xq,))
        meta_loss = meta_loss + loss_fn(pred, yq)
    meta_loss = meta_loss / META_BATCH
    meta_opt.zero_grad()
    meta_loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    meta_opt.step()
    if it % 150 == 149:
        b, a = evaluate(40)
        print(f"iter {it + 1}: meta loss {meta_loss.item():.3f}, before {b:.3f}, after {a:.3f}")
print("final adapted_mse", round(evaluate()[1], 5))

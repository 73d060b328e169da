import random
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

seed = 1234
torch.manual_seed(seed)
np.random.seed(seed)
random.seed(seed)
num_steps = 500

d = load_digits()
p = np.random.permutation(1797)
x, t = torch.tensor(d.data[p] / 16.0).float(), torch.tensor(d.target[p])
loader = DataLoader(TensorDataset(x[:1300], t[:1300]), batch_size=50, drop_last=True)

net = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)
)
optim = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)

for step in range(1, num_steps + 1):
    xb, tb = next(iter(loader))
    logits = net(xb)
    loss = torch.nn.functional.cross_entropy(logits, tb)
    optim.zero_grad(set_to_none=True)
    loss.backward()
    optim.step()
    if step % 100 == 0:
        print(f"step {step:4d} | loss {loss.item():.5f}")

with torch.inference_mode():
    acc = (net(x[1300:]).argmax(-1) == t[1300:]).double().mean().item()
print(f"final acc {acc:.4f}")

"""Adjoints and exact NTK trace of an MLP against per-sample jacrev over parameters.

python -m benchmarks.adjoints               # a table, for people
python -m benchmarks.adjoints | tail -1     # one line of JSON, for scripts

16 layers, 64 samples, 10 outputs, float64. Time is the best of several, in turns in one process;
memory is the peak of torch's allocator, next to that of one SGD step of the same batch.
"""

import json

import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from benchmarks._memory import peak_bytes
from benchmarks._timing import best_of, environment
from sigmascope.models import Subject

DEPTH, WIDTH, SAMPLES, OUTPUTS = 16, 128, 64, 10


def network() -> nn.Sequential:
    """He-initialised ReLU layers, so that no derivative is lost in rounding."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(DEPTH - 1):
        linear = nn.Linear(WIDTH, WIDTH)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, OUTPUTS)).double()


def ours(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """NTK trace per sample, from the adjoints of all layers."""
    swept = Subject(model, x).adjoints
    shares = (a.share_sq.sum(1) for a in swept.adjoints.values() if a.share_sq is not None)
    return torch.stack(list(shares)).sum(0)


def theirs(model: nn.Module, x: torch.Tensor, *, chunk: int) -> torch.Tensor:
    """NTK trace per sample, from Jacobians over parameters."""
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    one = jacrev(lambda p, v: functional_call(model, p, v[None])[0])
    jacobians = vmap(one, in_dims=(None, 0), chunk_size=chunk)
    return sum(j.flatten(1).square().sum(1) for j in jacobians(parameters, x).values())


def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """One step of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    model, x = network(), torch.randn(SAMPLES, WIDTH, dtype=torch.float64)
    y = torch.randint(0, OUTPUTS, (SAMPLES,))
    chunks = (8, SAMPLES)  # jacrev is given the better of two
    contenders = {f"jacrev, {c} at once": lambda c=c: theirs(model, x, chunk=c) for c in chunks}
    least = best_of({"adjoints": lambda: ours(model, x), **contenders}, repeats=3)
    a, b = ours(model, x), theirs(model, x, chunk=8)
    error = float(((a - b).abs() / b).max())
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    memory = {
        "adjoints": held + peak_bytes(lambda: ours(model, x)),
        "training step": held + peak_bytes(lambda: step(model, x, y)),
    }
    for name, seconds in least.items():
        print(f"{name:<22} {seconds:.4f} s")
    ratio = min(v for k, v in least.items() if k != "adjoints") / least["adjoints"]
    print(f"{'speed-up':<22} {ratio:.1f}\n{'relative error':<22} {error:.1e}")
    for name, size in memory.items():
        print(f"{name:<22} {size / 1e6:.1f} MB at its peak")
    share = memory["adjoints"] / memory["training step"]
    row = {"seconds": least, "speed-up": ratio, "error": error, "memory ratio": share}
    print(f"{'memory ratio':<22} {share:.2f}")
    print(json.dumps({**environment(), **row}))

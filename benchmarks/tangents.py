"""Neural tangent kernel of a CIFAR-size ResNet: its trace, and the top of its Gram matrix.

python -m benchmarks.tangents               # a table, for people
python -m benchmarks.tangents | tail -1     # one line of JSON, for scripts

ResNet-20 on images of 32 x 32 with 10 outputs. The exact trace on 64 images is timed against a
forward and backward pass on the same images, and compared with per-sample Jacobians over the
parameters in float64. The largest eigenvalue of the kernel on 512 images (5120 x 5120) is found by
Lanczos steps; its memory is set against that of a step of training on the same images.
"""

import json

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from benchmarks._memory import peak_bytes
from benchmarks._timing import best_of, environment
from sigmascope.linalg.krylov import extreme_eigenvalues
from sigmascope.models import Subject
from sigmascope.models.networks import resnet

SAMPLES, MANY, OUTPUTS = 64, 512, 10


def trace(model: nn.Module, x: Tensor) -> Tensor:
    """NTK trace per sample, of all layers and normalisers."""
    return Subject(model, x).ntk_trace


def reference(model: nn.Module, x: Tensor) -> Tensor:
    """The same from Jacobians over parameters, one sample at a time."""
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    one = jacrev(lambda p, v: functional_call(model, p, v[None])[0])
    found = vmap(one, in_dims=(None, 0), chunk_size=1)(parameters, x)
    return torch.stack([j.flatten(1).square().sum(1) for j in found.values()]).sum(0)


def passes(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """One forward and backward pass."""
    F.cross_entropy(model(x), y).backward()
    model.zero_grad(set_to_none=False)


def top(model: nn.Module, x: Tensor, *, steps: int) -> float:
    """Largest eigenvalue of the kernel of a batch."""
    kernel = Subject(model, x).tangent_kernel()
    g = torch.Generator().manual_seed(0)
    ends = extreme_eigenvalues(kernel, sides="top", steps=steps, tolerance=1e-3, generator=g)
    return ends.top[0].value


def main() -> dict[str, float]:
    """Costs in passes, the error, memory in training steps."""
    g = torch.Generator().manual_seed(0)
    model = resnet(inputs=(3, 32, 32), outputs=OUTPUTS, depth=20, generator=g)
    x = torch.randn(MANY, 3, 32, 32, generator=g)
    y = torch.randint(OUTPUTS, (MANY,), generator=g)
    few, labels = x[:SAMPLES], y[:SAMPLES]
    with torch.no_grad():
        model(x)  # running statistics that suit the images
    model.eval()
    least = best_of(
        {"trace": lambda: trace(model, few), "pass": lambda: passes(model, few, labels)}, repeats=3
    )
    exact = model.double()
    a, b = trace(exact, few[:8].double()), reference(exact, few[:8].double())
    model.float()
    product = best_of(
        {"top": lambda: top(model, x, steps=4), "pass": lambda: passes(model, x, y)}, repeats=1
    )
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    memory = [
        held + peak_bytes(run)
        for run in (lambda: top(model, x, steps=4), lambda: passes(model, x, y))
    ]
    return {
        "trace, passes": least["trace"] / least["pass"],
        "trace, relative error": float(((a - b).abs() / b).max()),
        "four Lanczos steps, passes": product["top"] / product["pass"],
        "Gram, memory of a training step": memory[0] / memory[1],
        "largest eigenvalue": top(model, x[:SAMPLES], steps=24),
    }


if __name__ == "__main__":
    found = main()
    for name, value in found.items():
        print(f"{name:34} {value:.4g}")
    print(json.dumps({**found, **environment()}))

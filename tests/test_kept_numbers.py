"""What the doors say of small networks, in numbers, is what they said before.

Nothing is proven here. A change of the code's form moves none of these numbers; one that moves
some, as a narrower interval does, is told in CHANGELOG.md, and they are written anew by
`make kept`.

Each line of `kept_numbers.json` is of one quantity, theorem or finding of one network: how many
numbers and words were told of it, and one sum of them all. The sum grows with the logarithm of each
number, and each counts differently in it, so that no small one is lost beside a large one, nor two
that change places. All is in float64, where machines differ by less than is allowed.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from models_zoo import MODELS, call
from torch import nn
from torch.nn import functional as F
from watching.layouts import Kept

import sigmascope as ss
from sigmascope import theory
from sigmascope.core.encoding import encoded
from sigmascope.models.samples import as_tensor
from sigmascope.report import json_form
from sigmascope.watching import Watch

KEPT = Path(__file__).with_name("kept_numbers.json")
TORCH = "torch " + ".".join(torch.__version__.split(".")[:2])
SMALL = 1e-3  # numbers far below this are rounding
ALLOWED = 1e-4  # of a sum, for each number in it
NAMES = ("quantity", "theorem", "name", "form", "remedy")  # what a part of a result speaks of
WORDS = ("verdict", "severity", "sense", "word", "kind")
INNER = ("measured", "limit", "value", "low", "high", "estimate", "readings")
LEFT_OUT = ("about", "how", "risk", "seconds", "took")  # how it was measured, in what time


def told(result: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number and verdict of an encoded result, with what it is of."""
    if isinstance(result, Mapping):
        path += "".join(f" {result[name]}" for name in NAMES if isinstance(result.get(name), str))
        for key, value in result.items():
            if key in WORDS and isinstance(value, str):
                yield f"{path} {key} {value}".strip(), 1.0
            elif key not in LEFT_OUT and key not in NAMES:
                yield from told(value, path if key in INNER else f"{path} {key}")
    elif isinstance(result, list | tuple):
        for part in result:
            yield from told(part, path)
    elif isinstance(result, int | float):
        yield path.strip(), float(result)


def summed(results: list[Any]) -> dict[str, list[float]]:
    """By what it is of: how many numbers, and their sum."""
    numbers: dict[str, list[float]] = defaultdict(list)
    for result in results:
        for path, number in told(result if isinstance(result, dict) else encoded(result)):
            numbers[path].append(number)
    weight = lambda place: 1 + (place * 0.6180339887498949) % 1
    size = lambda x: math.asinh(x / SMALL) if math.isfinite(x) else 0.0
    return {
        path: [len(own), round(sum(weight(i) * size(x) for i, x in enumerate(own)), 6)]
        for path, own in sorted(numbers.items())
    }


def fresh(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, generator=fresh(seed), dtype=torch.float64)


def found_in(name: str) -> tuple[nn.Module, Any]:
    """A network of the zoo in float64, and its batch."""
    net, batch = MODELS[name]()
    wide = lambda t: t.double() if t.is_floating_point() else t
    return net.double(), tuple(map(wide, batch)) if isinstance(batch, tuple) else wide(batch)


def stack(*sizes: int, activation: type[nn.Module] = nn.ReLU, scale: float = 1.0) -> nn.Sequential:
    """Linear layers with an activation between."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        layer = nn.Linear(a, b).double()
        layer.weight.data = scale * normal(b, a, seed=i) / a**0.5
        layer.bias.data = 0.1 * normal(b, seed=100 + i)
        layers += [layer, activation()]
    return nn.Sequential(*layers[:-1])


X = normal(24, 6, seed=7)
CLASSES = (X @ normal(6, 3, seed=8)).argmax(1)
WANTED = torch.tanh(X @ normal(6, 3, seed=9))
NET = stack(6, 8, 7, 3)
WIDE = stack(6, 24, 16, 3, activation=nn.Tanh)
TASK = {"targets": CLASSES, "loss": F.cross_entropy}
SQUARED = {"targets": WANTED, "loss": F.mse_loss}


def profiled(name: str) -> list[Any]:
    net, batch = found_in(name)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        shape = as_tensor(call(net, batch))[0].shape
    profile = ss.profile(net, batch, targets=normal(*shape), loss=F.mse_loss)
    return [profile, *ss.judge(profile)]


def classified(net: nn.Module, x: torch.Tensor = X) -> list[Any]:
    profile = ss.profile(net, x, **TASK)
    return [profile, *ss.judge(profile)]


def dead() -> nn.Module:
    net = stack(6, 8, 8, 3)
    net[2].bias.data.fill_(-100.0)
    return net


def trained(optimizer: type[torch.optim.Optimizer], rate: float) -> list[Any]:
    net, kept = stack(6, 8, 7, 3, activation=nn.Tanh), Kept()
    steps = optimizer(net.parameters(), lr=rate)
    with Watch(net, steps, sinks=[kept], budget=1.0, clock=lambda: 0.0) as watch:
        for _ in range(24):
            steps.zero_grad()
            loss = F.cross_entropy(net(X), CLASSES)
            loss.backward()
            steps.step()
            watch.step(loss)
    return [*kept.looks]


def scanned() -> dict[str, torch.Tensor]:
    low = normal(40, 3, seed=1) @ normal(3, 24, seed=2) + 0.1 * normal(40, 24, seed=8)
    spiked = normal(48, 32, seed=4)
    spiked[:, 0] *= 6
    return {
        "low.weight": low,
        "spiked.weight": spiked,
        "plain.weight": normal(64, 32, seed=5),
        "conv.weight": normal(8, 4, 3, 3, seed=6),
        "bias": normal(5, seed=7),
    }


PROFILES = (
    *("attention-batch-first", "batchnorm-images", "batchnorm-train", "bilinear", "conv-depthwise"),
    *("conv-transposed", "deep-linear", "dense-concat", "dropout", "embedding-mlp", "groupnorm"),
    *("language-model-tied", "layernorm", "lstm", "mixture-of-experts", "relu-mlp", "residual-mlp"),
    *("shared-twice", "small-resnet", "transformer-encoder-train", "transformer-pre-norm", "unet"),
    "weight-norm",
)
DOORS: dict[str, Callable[[], list[Any]]] = {
    **{f"profile of {name}": (lambda name=name: profiled(name)) for name in PROFILES},
    "profile of classes": lambda: classified(NET),
    "profile of dead units": lambda: classified(dead()),
    "profile of a deep net": lambda: classified(stack(6, *[10] * 16, 3, scale=1.4)),
    "profile of small weights": lambda: classified(stack(6, *[10] * 8, 3, scale=0.4)),
    "profile of saturated units": lambda: classified(
        stack(6, 9, 9, 3, activation=nn.Tanh, scale=9.0)
    ),
    "profile of unscaled inputs": lambda: classified(NET, 500 + 90 * X),
    "profile without a loss": lambda: [ss.profile(NET, X)],
    "comparison": lambda: [
        json_form(ss.compare(NET, stack(6, 8, 7, 3, scale=1.2), batch=X, **SQUARED))
    ],
    "scan": lambda: [ss.scan(scanned())],
    "scan against": lambda: [
        ss.scan(scanned(), against={k: v + 0.1 * v.flip(0) for k, v in scanned().items()})
    ],
    "watch of SGD": lambda: trained(torch.optim.SGD, 0.2),
    "watch of Adam": lambda: trained(torch.optim.Adam, 0.02),
    "watch of a high rate": lambda: trained(torch.optim.SGD, 60.0),
    "rates of layers": lambda: [ss.layer_rates(NET, X, **TASK)],
    "compression": lambda: [json_form(ss.compression(NET, X, targets=CLASSES, tolerance=0.1))],
    "Hessian": lambda: [ss.curvature(WIDE, X, **TASK, steps=8)],
    "Hessian of layers": lambda: [ss.curvature(NET, X, **TASK, layers=["0", "4"])],
    "trace to a tolerance": lambda: [
        ss.curvature(WIDE, X, **TASK, only=["trace", "top"], tolerance=0.05)
    ],
    "Gauss-Newton matrix": lambda: [ss.curvature(WIDE, X, **SQUARED, kind="gauss-newton", steps=8)],
    "Fisher matrix": lambda: [ss.curvature(WIDE, X, **TASK, kind="fisher", steps=8)],
    "conditioning": lambda: [ss.landscape(NET, X, **TASK)],
    "another skip": lambda: [*theory.landscape.what_if(stack(6, 8, 8, 3), X, skip="2", **SQUARED)],
    "a plane of losses": lambda: [theory.landscape.loss_surface(NET, X, **TASK, points=5)],
    "bottleneck": lambda: [ss.bottleneck(stack(6, 8, 2, 8, 3), X, targets=WANTED, kernel=True)],
    "random chains": lambda: [ss.predict(12, 6, samples=8, layers=20, generator=fresh())],
    "regions": lambda: [theory.piecewise_affine.regions_along(NET, X[:1], X[1:2])],
    "a plane of regions": lambda: [theory.landscape.input_regions(NET, X)],
}


@pytest.mark.parametrize("door", DOORS)
def test_numbers_are_as_they_were_kept(door):
    """Whatever the process drew before: nothing is drawn from its own source."""
    every = json.loads(KEPT.read_text())
    if TORCH not in every:
        pytest.skip(f"kept of another version, whose kernels and draws may be others: no {TORCH}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(door))
        found = summed(DOORS[door]())
    kept = every[door]
    moved = {
        path: (kept.get(path), found.get(path))
        for path in kept.keys() | found.keys()
        if path not in kept
        or path not in found
        or kept[path][0] != found[path][0]
        or abs(kept[path][1] - found[path][1]) > ALLOWED * kept[path][0]
    }
    assert not moved, "kept and found; if it is told in CHANGELOG.md, `make kept` keeps these"


def main() -> None:
    """Write what is told now."""
    lines = [f"{json.dumps(TORCH)}: {{}}"]
    for door, ask in DOORS.items():
        own = [f"  {json.dumps(path)}: {json.dumps(one)}" for path, one in summed(ask()).items()]
        lines.append(f"{json.dumps(door)}: {{\n" + ",\n".join(own) + "\n}")
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

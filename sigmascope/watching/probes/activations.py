"""What layers read and write while they train, from sums over the samples of a step."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.probes.execution import layers
from sigmascope.watching.columns import Column
from sigmascope.watching.hooks import Heard, listening, removed
from sigmascope.watching.probes.base import Found, Probe, nothing
from sigmascope.watching.processes import whole

ENDS: Mapping[type, tuple[float, float]] = {  # of the activations that saturate
    nn.Sigmoid: (0.0, 1.0), nn.Hardsigmoid: (0.0, 1.0), nn.Tanh: (-1.0, 1.0),
    nn.Hardtanh: (-1.0, 1.0), nn.Softsign: (-1.0, 1.0),
}  # fmt: skip
NEAR = 0.01  # of the range, from an end


class Sums:
    """Sums over the samples of a step, by name and place; passes of one step add up."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Tensor] = {}

    def add(self, name: str, site: str, value: Tensor) -> None:
        """Add a vector of float64."""
        at = (name, site)
        self.found[at] = self.found[at] + value if at in self.found else value


class Activations(Probe):
    """Mean square and dead units of what layers read, saturation, drift of running statistics.

    Args:
        model: The user's own module.
    """

    name = "activations"
    share = 0.2
    first = 2  # in the first step a model may be compiled

    def __init__(self, model: nn.Module) -> None:
        self._layers = layers(model)
        self._bounded = {n: m for n, m in model.named_modules() if type(m) in ENDS}
        self._normalisers = {
            n: m for n, m in model.named_modules()
            if isinstance(m, _BatchNorm) and m.running_mean is not None
        }  # fmt: skip
        self._handles: list[Any] = []
        self._sums = Sums()
        self._order: list[tuple[str, str]] = []
        self._sizes: dict[tuple[str, str], int] = {}

    def open(self) -> None:
        self._sums = Sums()
        self._handles = listening(self._ears(), self.spent)

    def local(self) -> Tensor:
        removed(self._handles)
        self._order = [*self._sums.found]
        self._sizes = {at: len(t) for at, t in self._sums.found.items()}
        parts = [t.cpu() for t in self._sums.found.values()]
        return torch.cat(parts) if parts else nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        by_name: dict[str, dict[str, float]] = {}
        parts = total.split([self._sizes[at] for at in self._order]) if self._order else ()
        for (name, site), sums in zip(self._order, parts, strict=True):
            by_name.setdefault(name, {})[site] = READ[name.partition("|")[0]](sums)
        for name, values in by_name.items():
            quantity, _, form = name.partition("|")
            yield Column(quantity, [*values], [*values.values()], 1e-5, form)

    def close(self) -> None:
        removed(self._handles)

    def _ears(self) -> Iterator[tuple[nn.Module, Heard]]:
        for i, (site, module) in enumerate(self._layers.items()):
            yield module, self._reads(site, first=i == 0)
        for site, module in self._bounded.items():
            yield module, self._saturates(site, module)
        for site, module in self._normalisers.items():
            yield module, self._drifts(site, module)

    def _reads(self, site: str, *, first: bool) -> Heard:
        def hear(x: Tensor, _: Any) -> None:
            if not x.is_floating_point() or not x.numel():
                return
            channels = channel_of(x)
            others = [d for d in range(x.ndim) if d != channels]
            size = torch.linalg.vector_norm(x, dtype=torch.float64).square()
            count = size.new_tensor(float(x.numel()))
            self._sums.add("mean square", site, torch.stack([size, count]))
            if others:
                total = x.sum(others, dtype=torch.float64)
                rows = total.new_tensor([x.numel() / len(total)])
                self._sums.add("relative variation", site, torch.cat([total, size[None], rows]))
                if not first:
                    alive = (x.amax(others) != 0) | (x.amin(others) != 0)
                    self._sums.add("dead units", site, alive.double())

        return hear

    def _saturates(self, site: str, module: nn.Module) -> Heard:
        low, high = ENDS[type(module)]
        name = f"saturated share|{type(module).__name__}"
        middle, reach = (low + high) / 2, (high - low) * (0.5 - NEAR)

        def hear(_: Tensor, output: Any) -> None:
            if isinstance(output, Tensor):
                near = ((whole(output).detach() - middle).abs() >= reach).sum().double()
                total = near.new_tensor(float(output.numel()))
                self._sums.add(name, site, torch.stack([near, total]))

        return hear

    def _drifts(self, site: str, module: _BatchNorm) -> Heard:
        def hear(x: Tensor, _: Any) -> None:
            mean, variance = module.running_mean, module.running_var
            if module.training and mean is not None and variance is not None:
                rows = x.transpose(0, 1).flatten(1).double()
                count = float(rows.shape[1])
                weighed = [mean.double() * count, variance.double() * count]  # each process has own
                counts = torch.full_like(weighed[0], count)
                sums = [rows.sum(1), rows.square().sum(1), *weighed, counts]
                self._sums.add("statistics drift", site, torch.cat(sums))

        return hear


def channel_of(x: Tensor) -> int:
    """The dimension of channels: the second of images and volumes, else the last."""
    return 1 if x.ndim in (4, 5) else x.ndim - 1


def _share(sums: Tensor) -> float:
    part, whole = sums.tolist()
    return part / whole if whole else math.nan


def _dead(alive: Tensor) -> float:
    return float((alive == 0).double().mean())


def _variation(sums: Tensor) -> float:
    """Of rows, from their sum, their squared norm and their number."""
    *_, size, count = sums.tolist()
    if not size > 0:
        return math.nan if math.isnan(size) else 0.0
    common = float(sums[:-2].square().sum()) / count
    return math.sqrt(max(1 - common / size, 0.0))


def _drift(sums: Tensor) -> float:
    """Root mean square over channels of the drifts of mean and variance."""
    first, second, mean, variance, count = sums.reshape(5, -1)
    centre = first / count
    spread = (second / count - centre.square()).clamp_min(0)
    kept = variance / count
    known = (spread > 0) & (kept > 0)
    if not bool(known.any()):
        return 0.0
    apart = (centre - mean / count)[known].square() / spread[known]
    square = apart + (0.5 * (spread[known] / kept[known]).log()).square()
    return float(square.mean().sqrt())


READ: Mapping[str, Callable[[Tensor], float]] = {
    "mean square": _share,
    "dead units": _dead,
    "relative variation": _variation,
    "saturated share": _share,
    "statistics drift": _drift,
}

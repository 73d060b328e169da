"""What layers read and write while they train, from sums over the samples of a step."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.core import quantities as q
from sigmascope.core.records import Skipped
from sigmascope.models.layers import layers
from sigmascope.watching.hooks import Heard, listening, removed
from sigmascope.watching.probes.base import TRY, Found, Layout, Probe, Sharing
from sigmascope.watching.processes import entries, features, sharded_kind
from sigmascope.watching.sinks import OWN, Column

ENDS: Mapping[type, tuple[float, float]] = {  # of the activations that saturate
    nn.Sigmoid: (0.0, 1.0), nn.Hardsigmoid: (0.0, 1.0), nn.Tanh: (-1.0, 1.0),
    nn.Hardtanh: (-1.0, 1.0), nn.Softsign: (-1.0, 1.0),
}  # fmt: skip
SILENT = 3  # turns in which nothing was heard
NEAR = 0.01  # of the range, from an end
OF_INPUTS = (q.MEAN_SQUARE, q.RELATIVE_VARIATION, q.DEAD_UNITS)


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
        self._model, self._layers = model, layers(model)
        self._bounded = {n: m for n, m in model.named_modules() if type(m) in ENDS}
        self._normalisers = {
            n: m for n, m in model.named_modules()
            if isinstance(m, _BatchNorm) and m.running_mean is not None
        }  # fmt: skip
        self._handles: list[Any] = []
        self._possible = [
            *((name, site) for site in self._layers for name in OF_INPUTS),
            *((_saturated(m), site) for site, m in self._bounded.items()),
            *((q.STATISTICS_DRIFT, site) for site in self._normalisers),
        ]
        self._sums = Sums()
        self._layout = Layout()
        self._silent = 0

    def open(self) -> None:
        self._sums = Sums()
        ears = [*self._ears()]
        heard = set(self.audible(self._model, [m for m, _ in ears]))
        self._handles = listening([ear for ear in ears if ear[0] in heard], self)

    def listen(self) -> None:
        removed(self._handles)
        deaf = set(self.deaf)
        self._handles = listening([ear for ear in self._ears() if ear[0] in deaf], self)

    def agree(self) -> Sharing:
        removed(self._handles)
        yield from self._layout.agree(self._sums.found, self._possible)

    def local(self) -> Tensor:
        return self._layout.part(self._sums.found)

    def read(self, total: Tensor) -> Iterator[Found]:
        by_name: dict[str, dict[str, float]] = {}
        self._silent = 0 if self._layout.sizes else self._silent + 1
        if self._silent == SILENT and self.again == "batch" and not self.compiled:
            self.compiled, self._silent = True, 0  # what was compiled before no hook can reach
        elif self._silent == SILENT:
            self.idle = True
            why = f"no hook has heard a layer: the model runs compiled or as a copy; {TRY}"
            self.notes += (Skipped(OWN, self.name, why),)
        for (name, site), sums in self._layout.split(total).items():
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
            if not x.is_floating_point() or not x.ndim:
                return
            channels = channel_of(x)
            x, at, width = features(x, channels)
            others = [d for d in range(x.ndim) if d != channels]
            size = torch.linalg.vector_norm(x, dtype=torch.float64).square()
            count = size.new_tensor(float(x.numel()))
            self._sums.add(q.MEAN_SQUARE, site, torch.stack([size, count]))
            if others and width:
                total = _put(x.sum(others, dtype=torch.float64), at, width)
                rows = total.new_tensor([x.numel() / width])
                self._sums.add(q.RELATIVE_VARIATION, site, torch.cat([total, size[None], rows]))
                if not first and x.numel():
                    alive = (x.amax(others) != 0) | (x.amin(others) != 0)
                    self._sums.add(q.DEAD_UNITS, site, _put(alive.double(), at, width))

        return hear

    def _saturates(self, site: str, module: nn.Module) -> Heard:
        low, high = ENDS[type(module)]
        name = _saturated(module)
        middle, reach = (low + high) / 2, (high - low) * (0.5 - NEAR)

        def hear(_: Tensor, output: Any) -> None:
            if isinstance(output, Tensor):
                mine = entries(output.detach())
                near = ((mine - middle).abs() >= reach).sum().double()
                total = near.new_tensor(float(mine.numel()))
                self._sums.add(name, site, torch.stack([near, total]))

        return hear

    def _drifts(self, site: str, module: _BatchNorm) -> Heard:
        def hear(x: Tensor, _: Any) -> None:
            mean, variance = module.running_mean, module.running_var
            kind = sharded_kind()
            plain = kind is None or not isinstance(x, kind)
            if plain and module.training and mean is not None and variance is not None:
                rows = x.transpose(0, 1).flatten(1).double()
                count = float(rows.shape[1])
                weighed = [mean.double() * count, variance.double() * count]  # each process has own
                counts = torch.full_like(weighed[0], count)
                sums = [rows.sum(1), rows.square().sum(1), *weighed, counts]
                self._sums.add(q.STATISTICS_DRIFT, site, torch.cat(sums))

        return hear


def channel_of(x: Tensor) -> int:
    """The dimension of channels: the second of images and volumes, else the last."""
    return 1 if x.ndim in (4, 5) else x.ndim - 1


def _put(values: Tensor, at: slice, width: int) -> Tensor:
    """Values of some features among zeros for all others."""
    if len(values) == width:
        return values
    whole = values.new_zeros(width)
    whole[at] = values
    return whole


def _saturated(module: nn.Module) -> str:
    return f"saturated share|{type(module).__name__}"


def _share(sums: Tensor) -> float:
    part, whole = sums.tolist()
    return part / whole if whole else math.nan


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
    q.MEAN_SQUARE: _share,
    q.DEAD_UNITS: lambda alive: float((alive == 0).double().mean()),
    q.RELATIVE_VARIATION: _variation,
    q.SATURATED_SHARE: _share,
    q.STATISTICS_DRIFT: _drift,
}

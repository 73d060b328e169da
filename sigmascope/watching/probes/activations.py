"""What layers read and write while they train: their size, and how many directions they use."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.core import quantities as q
from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Reading, Skipped
from sigmascope.models.layers import layers
from sigmascope.survey import profile
from sigmascope.watching.hooks import Heard, listening, removed
from sigmascope.watching.probes.base import TRY, Found, Layout, Probe, Sharing, nothing
from sigmascope.watching.probes.sharpness import ProbeBatch
from sigmascope.watching.processes import Processes, entries, features, is_sharded, sharded_kind
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
            why = (
                "no hook has heard a layer: the model runs compiled, as a copy or under a "
                f"transform of `torch.func`; {TRY}"
            )
            self.notes += (Skipped(OWN, self.name, why),)
        for (name, site), sums in self._layout.split(total).items():
            value = READ[name.partition("|")[0]](sums)
            if value is not None:
                by_name.setdefault(name, {})[site] = value
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
                    mine = _put(alive.double(), at, width)
                    self._sums.add(q.DEAD_UNITS, site, torch.cat([mine, rows]))

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


def _dead(sums: Tensor) -> float | None:
    """Share of units, from where they are alive and the number of rows; None of a single row."""
    alive, count = sums[:-1], float(sums[-1])
    return float((alive == 0).double().mean()) if count > 1.5 else None


def _variation(sums: Tensor) -> float | None:
    """Of rows, from their sum, their squared norm and their number; None of a single one."""
    size, count = sums[-2:].tolist()
    if count < 1.5:
        return None
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


READ: Mapping[str, Callable[[Tensor], float | None]] = {
    q.MEAN_SQUARE: _share,
    q.DEAD_UNITS: _dead,
    q.RELATIVE_VARIATION: _variation,
    q.SATURATED_SHARE: _share,
    q.STATISTICS_DRIFT: _drift,
}


# ------------------------------------------------------------------------------
# How many directions the representations of a training batch use, one layer after another.


POSITIONS = 16  # of a sample that are taken at most, evenly spaced
ALIKE = 1e-20  # of the squared norm: below, rows differ by rounding only
WIDE = 1024  # columns from which on rows are sent and not the products of columns


class Representations(Probe):
    """Participation ratios of what one layer reads, of the samples of a training step.

    Where a sample has positions (words, pixels), some of them are taken, the same of every sample.

    Args:
        model: The user's own module.
        processes: Those that train it.
    """

    name = "representations"
    share = 0.12
    first = 2

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        self._model, self._layers = model, [*layers(model).items()]
        self._processes = processes
        self._turn, self._at = 0, 0
        self._site = ""
        self._count, self._mean = 0, torch.zeros(0)
        self._width, self._counts = 0, [0]
        self._rows: list[Tensor] = []
        self._whole: list[Any] = []  # to be made whole first
        self._cut = is_sharded(model)
        self._handles: list[Any] = []

    def __len__(self) -> int:
        """Layers that take turns."""
        return len(self._layers)

    def expected(self) -> float:
        module = self._layers[self._turn][1]
        d = max((p.shape[-1] for p in module.parameters() if p.ndim > 1), default=64)
        return 5e-4 + 3e-10 * min(d, WIDE) ** 2 * (d + 256)

    def open(self) -> None:
        self._rows, self._whole = [], []
        heard = set(self.audible(self._model, [m for _, m in self._layers]))
        can = heard | set(self.deaf)
        count = len(self._layers)
        turns = [(self._turn + i) % count for i in range(count)]
        self._at = next((i for i in turns if self._layers[i][1] in can), self._turn)
        self.deaf = [m for m in self.deaf if m is self._layers[self._at][1]]
        self._listen(heard)

    def listen(self) -> None:
        removed(self._handles)
        self._listen(self.deaf)

    def _listen(self, modules: Collection[nn.Module]) -> None:
        module = self._layers[self._at][1]
        self._handles = listening([(module, self._hear)] if module in modules else [], self)

    def agree(self) -> Sharing:
        removed(self._handles)
        self._site = self._layers[self._at][0]
        self._turn = (self._at + 1) % len(self._layers)
        at = torch.tensor([self._at, self._at**2, 1.0], dtype=torch.float64)
        total = yield at
        if total[0] ** 2 != total[1] * total[2]:
            raise ValueError("other layers are heard in other processes")
        if self._cut:  # activations are made whole by all processes together, or by none
            mine = torch.tensor([float(len(self._whole)), 1.0], dtype=torch.float64)
            total = yield torch.cat([mine, mine[:1].square()])
            if total[0] ** 2 != total[1] * total[2]:
                raise ValueError(f"{self._site} is not called as often in all processes")
        self._rows += [_some(x.full_tensor()) for x in self._whole]
        rows = torch.cat(self._rows) if self._rows else torch.zeros(0, 0)
        width = rows.new_tensor([float(bool(self._rows)), rows.shape[1]], dtype=torch.float64)
        heard, wide, *counts = yield torch.cat([width.cpu(), self._processes.alone(len(rows))])
        self._width, self._counts = round(float(wide / max(heard, 1))), [int(n) for n in counts]
        self._rows = [rows if self._rows else rows.new_zeros(0, self._width)]
        if self._width <= WIDE:
            total = yield self._rows[0].sum(0, dtype=torch.float64)
            self._mean = total.cpu() / max(sum(self._counts), 1)

    def local(self) -> Tensor:
        rows, self._rows, self._whole = self._rows.pop().double(), [], []
        self._count = sum(self._counts)
        if self._width > WIDE:
            joined = rows.new_zeros(self._count, self._width)
            first = sum(self._counts[: self._processes.rank])
            joined[first : first + len(rows)] = rows
            return joined.flatten().cpu()
        centred = rows - self._mean.to(rows.device)  # of all rows, before anything is squared
        return torch.cat([(centred.mT @ centred).flatten(), rows.square().sum()[None]]).cpu()

    def read(self, total: Tensor) -> Iterator[Found]:
        if not self._count or not self._width:
            return
        if self._width > WIDE:
            X = total.view(self._count, self._width)
            X = X - (mean := X.mean(0))
            self._mean = mean
            squares, gram = X.square().sum() + self._count * mean @ mean, X @ X.mT
            spread = X @ mean  # its products with the mean, of which the Gram matrix knows nothing
            cross = float(spread @ spread)
        else:
            d = self._width
            squares, gram = total[-1], total[:-1].view(d, d)
            cross = float(self._mean @ gram @ self._mean)
        size = float(squares)
        if not math.isfinite(size) or size <= 0:
            return
        square, trace = float(gram.square().sum()), float(gram.diagonal().sum())
        shift = self._count * float(self._mean @ self._mean)
        whole = square + 2 * self._count * cross + shift**2
        yield self._ratio(q.PARTICIPATION_RATIO, trace + shift, whole, size)
        if trace > size * ALIKE:
            yield self._ratio(q.CENTRED_PARTICIPATION_RATIO, trace, square, size)

    def _ratio(self, name: str, trace: float, square: float, size: float) -> Column:
        """`trace² / square` with what rounding of the products and of the mean can have moved.

        An entry of the Gram matrix is off by `γ ‖xᵢ‖‖xⱼ‖`, so that the matrix is off by at most
        `γ` times its trace in Frobenius norm (Higham 2002, (3.13)); `γ` has the roundings of the
        sum, and those of taking the mean off rows of squared norm `size`.
        """
        value = trace**2 / square
        gamma = (max(self._count, self._width) + 8 + 4 * math.sqrt(size / trace)) * 2.0**-53
        gap = value * 2 * gamma * (1 + math.sqrt(value))
        most = float(min(self._count, self._width))
        value = min(max(value, 1.0), most)
        estimate = Estimate(value, max(value - gap, 1.0), min(value + gap, most), "moments")
        return Column.of(name, [(self._site, estimate)])

    def close(self) -> None:
        removed(self._handles)
        self._rows, self._whole = [], []

    def _hear(self, x: Tensor, _: Any) -> None:
        kind = sharded_kind()
        if x.is_floating_point() and x.ndim > 1:
            if kind is not None and isinstance(x, kind):
                self._whole.append(x)
            else:
                self._rows.append(_some(x))


def _some(x: Tensor) -> Tensor:
    """Rows of features, at some of the positions of each sample."""
    rows = x.movedim(channel_of(x), -1).flatten(1, -2) if x.ndim > 2 else x[:, None]
    step = max(-(-rows.shape[1] // POSITIONS), 1)
    return rows[:, ::step].flatten(0, 1)


# ------------------------------------------------------------------------------
# Profiles of the model on a batch that stays the same, as it trains.


class Profiles(Probe):
    """What `profile` reads of the model, in some of its views.

    The dearest of all: its turns come as far apart as the budget asks for.

    Args:
        model: The user's own module.
        probe: What it is measured on.
        views: Of `profile`.
    """

    name = "profile"
    of_batch = "any"
    share = 0.25
    first = 2

    def __init__(self, model: nn.Module, probe: ProbeBatch, views: Collection[View]) -> None:
        self._model, self._probe, self._views = model, probe, tuple(views)
        self._found: tuple[Reading, ...] = ()

    def expected(self) -> float:
        return 0.3

    def local(self) -> Tensor:
        """Measured here: every process has the same weights and the same probe batch."""
        of = {"targets": self._probe.targets, "loss": self._probe.loss}
        self._found = profile(self._model, self._probe.batch, views=self._views, **of).readings
        return nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        found, self._found = self._found, ()
        yield from found

"""How many directions the representations of a training batch use, one layer after another."""

import math
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Reading
from sigmascope.models.layers import layers
from sigmascope.survey import profile
from sigmascope.watching.hooks import listening, removed
from sigmascope.watching.probes.activations import channel_of
from sigmascope.watching.probes.base import Found, Probe, Sharing, nothing
from sigmascope.watching.probes.sharpness import ProbeBatch
from sigmascope.watching.processes import Processes, is_sharded, sharded_kind
from sigmascope.watching.sinks import Column

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

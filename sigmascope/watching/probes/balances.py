"""Balances of layers whose decay differs: what decay takes from one, and the other gives back.

Two layers that undo one another's scale keep `‖W‖² + ‖b‖² - ‖V‖²` under gradient flow. Decay of one
side alone moves it for ever at the same function: nothing is regularised. That two layers do undo
one another's scale is told by their gradients, `⟨W, ∂W⟩ + ⟨b, ∂b⟩ = ⟨V, ∂V⟩` on every batch, so
that no graph is traced and compiled models are heard as well.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from sigmascope.core import quantities as q
from sigmascope.watching.parameters import Place
from sigmascope.watching.probes.base import Found, Probe
from sigmascope.watching.probes.norms import FOREACH
from sigmascope.watching.processes import Processes, is_sharded
from sigmascope.watching.sinks import Column

NEAR, APART = 1e-4, 1e-3  # of the norms' products: the gradients agree, or do not
LARGE = 20 * NEAR  # and say something: both are zero where a normaliser hides the scale
AGREED = 3  # turns
ALIKE = 1e-9  # relative difference of two speeds
NAMES = q.LAYER_IMBALANCE, q.IMBALANCE_MOVED, q.IMBALANCE_MOVED_BY_DECAY


@dataclass(slots=True, eq=False)
class _Pair:
    """Two layers, and what has become of their balance.

    Attributes:
        below: Parameters of the first.
        above: The weight of the second.
        agreed: Turns at which gradients told that each undoes the other's scale.
        first: Squared norms of both when they were first read.
        speed: What decay changed the balance by in a step, when it was last read.
        moved: What decay has changed it by since the first reading.
        step: Of the last reading.
    """

    site: str
    below: tuple[nn.Parameter, ...]
    above: nn.Parameter
    optimizer: Optimizer
    agreed: int = 0
    first: tuple[float, float] | None = None
    speed: float = 0.0
    moved: float = 0.0
    step: int = 0


class Balances(Probe):
    """Imbalance of neighbouring layers that decay at different speeds, and how much decay moved it.

    Nothing is read of layers that decay alike, and nothing of an optimizer whose decay is not known
    here: balances that Adam's steps move are none of this.

    Args:
        model: The user's own module.
        places: The trained layers.
        processes: Those that train it.
    """

    name = "balances"
    share = 0.1
    first = 2
    of_gradients = True

    def __init__(self, model: nn.Module, places: Sequence[Place], processes: Processes) -> None:
        self._processes = processes
        self._pairs: list[_Pair] = []
        # neighbours of fitting shapes whose weights decay at different speeds
        for below, above in pairwise(() if is_sharded(model) else places):
            lower, upper = _matrix(below), _matrix(above)
            if lower is None or upper is None or below.optimizer is not above.optimizer:
                continue
            pair = _Pair(f"{below.site} ~ {above.site}", below.parameters, upper, below.optimizer)
            if upper.shape[1] % lower.shape[0] == 0 and (decays := _decays(pair)) is not None:
                mine, others = decays[id(lower)], decays[id(upper)]
                if abs(mine - others) > ALIKE * max(mine, others):
                    self._pairs.append(pair)

    def __len__(self) -> int:
        """Pairs that may be read."""
        return len(self._pairs)

    def expected(self) -> float:
        sizes = (p.numel() for pair in self._pairs for p in (*pair.below, pair.above))
        return 5e-4 + 2e-9 * sum(sizes)

    def before(self, optimizer: Optimizer) -> None:
        told = {
            pair: _agree(pair)
            for pair in self._pairs
            if pair.optimizer is optimizer and pair.agreed < AGREED
        }
        for pair, agree in told.items():
            pair.agreed += bool(agree)
        self._pairs = [p for p in self._pairs if told.get(p) is not False]

    def local(self) -> Tensor:
        self._pairs = [p for p in self._pairs if _decays(p) is not None]
        self.idle = not self._pairs
        mine = {id(p): p.detach() for pair in self._pairs for p in (*pair.below, pair.above)}
        norms = FOREACH._foreach_norm([*mine.values()], 2, torch.float64) if mine else []
        squares = dict(zip(mine, (float(n) ** 2 for n in norms), strict=True))
        rows = []  # squared norms of both sides, and what decay changes their balance by in a step
        for pair in self._pairs:
            decays, above = _decays(pair) or {}, squares[id(pair.above)]
            taken = sum(decays[id(p)] * squares[id(p)] for p in pair.below)
            below = sum(squares[id(p)] for p in pair.below)
            rows.append((below, above, 2 * (decays[id(pair.above)] * above - taken)))
        return torch.tensor(rows, dtype=torch.float64).flatten() / self._processes.count

    def read(self, total: Tensor) -> Iterator[Found]:
        sites: list[str] = []
        rows: list[tuple[float, ...]] = []
        for pair, row in zip(self._pairs, total.view(-1, 3).tolist(), strict=True):
            found = _followed(pair, self.step, *row)
            if pair.agreed >= AGREED and all(map(math.isfinite, found)):
                sites.append(pair.site)
                rows.append(found)
        if rows:
            for name, values in zip(NAMES, zip(*rows, strict=True), strict=True):
                yield Column(name, sites, values, 1e-5)


def _matrix(place: Place) -> nn.Parameter | None:
    """The one weight of a layer that has nothing else but a bias; else None."""
    found = [p for p in place.parameters if p.ndim > 1]
    return found[0] if len(found) == 1 and len(place.parameters) <= 2 else None


def _decays(pair: _Pair) -> dict[int, float] | None:
    """Share of each parameter that decay takes in a step; None where that is not known.

    Gradients keep the balance only where both sides have one learning rate.
    """
    mine = {id(p) for p in (*pair.below, pair.above)}
    groups = {id(p): g for g in pair.optimizer.param_groups for p in g["params"] if id(p) in mine}
    rates = [_rate(pair.optimizer, g) for g in groups.values()]
    if len(groups) < len(mine) or any(r is None or r != rates[0] for r in rates):
        return None
    return {i: (rates[0] or 0.0) * float(g["weight_decay"]) for i, g in groups.items()}


def _rate(optimizer: Optimizer, group: Mapping[str, Any]) -> float | None:
    """What a step multiplies the decay by, when momentum has gathered it."""
    if isinstance(optimizer, SGD):
        momentum = float(group["momentum"])
        damping = 1 - float(group["dampening"]) if momentum else 1.0
        return float(group["lr"]) * damping / (1 - momentum) if momentum < 1 else None
    decoupled = isinstance(optimizer, AdamW) or group.get("decoupled_weight_decay", False)
    return float(group["lr"]) if decoupled else None


def _agree(pair: _Pair) -> bool | None:
    """Whether gradients tell that each side undoes the other's scale; None if they do not say."""
    sides = []
    for parameters in (pair.below, (pair.above,)):
        gradients = [p.grad for p in parameters]
        if any(g is None or g.is_sparse for g in gradients):
            return None
        pairs = [
            (p.detach(), g) for p, g in zip(parameters, gradients, strict=True) if g is not None
        ]
        dots = [float((p * g).sum(dtype=torch.float64)) for p, g in pairs]
        sizes = [float(torch.linalg.vector_norm(p) * torch.linalg.vector_norm(g)) for p, g in pairs]
        sides.append((sum(dots), sum(sizes)))
    (below, some), (above, others) = sides
    gap, size = abs(below - above), some + others
    if not math.isfinite(size) or gap > APART * size:
        return False if math.isfinite(size) else None
    return True if gap <= NEAR * size and abs(above) >= LARGE * size else None


def _followed(
    pair: _Pair, step: int, below: float, above: float, speed: float
) -> tuple[float, ...]:
    """The imbalance, how it has moved since it was first read, and by decay; in shares.

    Between two readings decay is taken to have gone on at the mean of both speeds.
    """
    if pair.first is None:
        pair.first = below, above
    else:
        pair.moved += (pair.speed + speed) / 2 * (step - pair.step)
    pair.speed, pair.step = speed, step
    size, whole = below + above, below + above + sum(pair.first)
    if not size > 0:
        return (math.nan,)
    gone = (below - above - pair.first[0] + pair.first[1]) / whole
    decayed = min(max(pair.moved / whole, -1.0), 1.0)
    return (below - above) / size, gone, decayed

"""Singular values of weights and of what steps add to them, and balances between neighbours."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from sigmascope.core import quantities as q
from sigmascope.core.records import SiteSpectrum, Skipped, Spectrum
from sigmascope.linalg import dense, krylov, measure
from sigmascope.linalg.norms import spectral_norm
from sigmascope.linalg.spectra import Moments, spectrum
from sigmascope.watching.probes.base import Found, Place, Probe, Sharing, nothing, steps_as
from sigmascope.watching.probes.norms import FOREACH
from sigmascope.watching.processes import Processes, is_cut, is_sharded, part, sharded_kind
from sigmascope.watching.sinks import OWN, Column

# ------------------------------------------------------------------------------
# Singular values of a weight whose rows or columns lie on several processes, without gathering it.
#
# Of rows `L` on each process, `WᵀW` is the sum of `LᵀL`. Up to some thousands of columns that sum
# is made and solved; above, a block of vectors is multiplied by it until it holds the leading ones.
# The invariant: no process ever holds more of the weight than it did, but for one that is cut both
# ways, whose rows are made whole first.


GRAM = 2048  # columns up to which their products are summed
SHARD_BLOCK, SHARD_STEPS, SHARD_LEADING = 16, 8, 6
ROUNDING = 2.0**-40  # relative, of the squares of leading values


@dataclass(frozen=True, slots=True)
class Shards:
    """This process' rows of a weight; its columns, transposed, where it is cut by columns.

    Attributes:
        rows: In the precision of the weight.
        shape: Of the whole, the cut side first.
        copies: Processes that hold these same rows.
        turned: Whether it is transposed.
    """

    rows: Float[Tensor, "some n"]
    shape: tuple[int, int]
    copies: int
    turned: bool

    @classmethod
    def of(cls, weight: Tensor, processes: Processes) -> "Shards":
        """This process' shard.

        Args:
            weight: A `DTensor`; dimensions behind the second count as columns.
            processes: Those that hold the shards.
        """
        from torch.distributed.tensor import Replicate

        held: Any = weight
        if len({p.dim for p in held.placements if is_cut(p)}) > 1:  # whole rows of such a one
            whole = [Replicate() if is_cut(p) and p.dim > 0 else p for p in held.placements]
            held = held.redistribute(placements=whole)
        by_columns = any(is_cut(p) and p.dim > 0 for p in held.placements)
        mine = part(held, processes)
        m, n = weight.shape[0], weight.numel() // max(weight.shape[0], 1)
        local = mine.tensor.flatten(1)  # of which there may be none
        if by_columns:
            return cls(local.mT, (n, m), mine.copies, turned=True)
        return cls(local, (m, n), mine.copies, turned=False)

    def block(self, generator: torch.Generator) -> Generator[Tensor, Tensor, Tensor | None]:
        """Leading vectors, the same in all processes; None where all products are summed.

        Args:
            generator: Of the first ones.

        Yields:
            A part of a sum, and is sent the sum.
        """
        if self.shape[1] <= GRAM:
            return None
        L, k = self.rows.double(), min(SHARD_BLOCK, *self.shape)
        Y = yield torch.randn(self.shape[1], k, generator=generator, dtype=L.dtype).flatten()
        for _ in range(SHARD_STEPS):
            Q = torch.linalg.qr(Y.view(-1, k)).Q.to(L.device)
            Y = yield (L.mT @ (L @ Q)).flatten() / self.copies
        return torch.linalg.qr(Y.view(-1, k)).Q.to(L.device)

    def part(self, block: Tensor | None) -> Tensor:
        """What this process hands in: its products, or those with a block of leading vectors."""
        L = self.rows.double()
        if block is not None:
            energy = L.square().sum()[None] / self.copies
            L = L @ block
            return torch.cat([(L.mT @ L).flatten() / self.copies, energy]).cpu()
        return ((L.mT @ L).flatten() / self.copies).cpu()

    def spectrum(self, total: Float64[Tensor, " any"]) -> Spectrum:
        """The singular values, from the sum of what all processes handed in."""
        m, n = self.shape
        shape = (n, m) if self.turned else (m, n)
        if n > GRAM:
            # values of a block are never above the true ones; what energy is left bounds them
            k = math.isqrt(len(total) - 1)
            squares = torch.linalg.eigvalsh(total[:-1].view(k, k)).flip(0).clamp_min(0)
            energy = float(total[-1])
            high = torch.maximum(energy - squares.sum() + squares, squares)  # all others taken off
            slack = ROUNDING * energy
            low = (squares - slack).clamp_min(0)
            ends = [t[:SHARD_LEADING].sqrt() for t in (squares, low, high + slack)]
            return Spectrum(
                ends[0], shape, f"block of shards ({k} x {SHARD_STEPS})", ends[1], ends[2]
            )
        moments = Moments(m, torch.zeros(n, dtype=total.dtype), total.view(n, n))
        found = moments.spectrum(centred=False)
        return Spectrum(found.sigma, shape, "gram of shards", found.low, found.high)


FULL = 768  # of the smaller side: above it the leading values are taken
FULL_UPDATE = 256  # the same of an update, where leading values cost less from there on
BLOCK, STEPS, LEADING = 12, 6, 6
FEWEST = 8  # of the smaller side, for a bulk
SIGNS = 1 << 20  # entries of a matrix whose noise edge is looked for, at most


# ------------------------------------------------------------------------------
# The probe of weights.


class WeightSpectra(Probe):
    """Norms, ranks and noise edge of one trained weight, and of what a step adds to it.

    Up to a side of 768 all singular values of the weight are taken (of the update up to 256, which
    has no noise edge), above it the leading ones. A copy of the weight is kept during the step that
    is read, and of no other. Of a sharded weight each process hands in the products of its own rows
    or columns; the weight is not gathered.

    Args:
        model: The user's own module.
        places: The trained layers.
        processes: Those that train it.
        generator: Of random signs and blocks.
    """

    name = "spectra"
    share = 0.13
    first = 2

    def __init__(
        self,
        model: nn.Module,
        places: Sequence[Place],
        processes: Processes,
        generator: torch.Generator,
    ) -> None:
        trainers = {id(p): place.optimizer for place in places for p in place.parameters}
        self._weights = [
            (n, p, trainers.get(id(p))) for n, p in model.named_parameters()
            if p.requires_grad and p.ndim > 1 and p.is_floating_point() and min(_shape(p)) > 1
        ]  # fmt: skip
        self._processes, self._generator = processes, generator
        self._turn = 0
        self._shape, self._site = (0, 0), ""
        self._copy: Tensor | None = None  # before the step
        self._update: Tensor | None = None
        self._matrices = list[Tensor]()  # the weight, and its update if there is one
        self._shards = list[Shards]()
        self._blocks = list[Tensor | None]()
        if is_sharded(model):
            why = "it needs the entries of a weight, which is sharded and not gathered"
            self.notes = (Skipped(OWN, "noise edge of sharded weights", why),)
        # what the first spectrum loads and tabulates is no part of any step's time
        matrix = torch.eye(FEWEST)
        list(self._columns(*(spectrum(matrix), matrix)))

    def __len__(self) -> int:
        """Weights that take turns."""
        return len(self._weights)

    def expected(self) -> float:
        m, n = _shape(self._weights[self._turn][1])
        small = min(m, n)
        leading = 1e-2 + 1e-10 * m * n * BLOCK * 2 * STEPS
        full = 1e-3 + 1e-10 * small * small * (max(m, n) + 6 * small)
        return (full if small <= FULL else leading) + (full if small <= FULL_UPDATE else leading)

    def open(self) -> None:
        self._copy = self._update = None

    def before(self, optimizer: Optimizer) -> None:
        _, weight, trainer = self._weights[self._turn]
        # what is frozen for now does not stop by itself
        moves = weight.requires_grad or weight.grad is not None
        reads = self._processes.rank == 0 or _cut(weight)
        if optimizer is trainer and moves and reads:
            self._copy = weight.detach().clone()

    def stepped(self, optimizer: Optimizer) -> None:
        _, weight, trainer = self._weights[self._turn]
        if optimizer is trainer and self._copy is not None:
            # in double precision where that costs little: the difference is then as good as exact
            double = min(_shape(weight)) <= FULL_UPDATE and weight.device.type != "mps"
            wide = torch.float64 if double or weight.dtype == torch.float64 else torch.float32
            self._update = weight.detach().to(wide) - self._copy.to(wide)
            self._copy = None

    def agree(self) -> Sharing:
        self._site, weight, _ = self._weights[self._turn]
        self._turn = (self._turn + 1) % len(self._weights)
        self._shape = _shape(weight)
        update, self._copy, self._update = self._update, None, None
        both = [weight.detach(), *([] if update is None else [update])]
        self._matrices, self._shards, self._blocks = [], [], []
        if _cut(weight):
            # what is cut both ways is made whole one way by all together, if it is there in all
            total = yield torch.tensor([float(len(both)), 2.0], dtype=torch.float64)
            both = both if bool(total[0] == total[1]) else both[:1]
            for each in both:
                self._shards.append(Shards.of(each, self._processes))
                self._blocks.append((yield from self._shards[-1].block(self._generator)))
        elif self._processes.rank == 0:
            self._matrices = [each.flatten(1).cpu() for each in both]

    def local(self) -> Tensor:
        pairs = zip(self._shards, self._blocks, strict=True)
        return torch.cat([shards.part(block) for shards, block in pairs] or [nothing()])

    def read(self, total: Tensor) -> Iterator[Found]:
        matrices, self._matrices = self._matrices, []
        parts = total.chunk(len(self._shards)) if self._shards else matrices
        # of the weight and its update; 0 or nan where that is all there is to say
        found, few = list[Spectrum | float](), (FULL, FULL_UPDATE)
        for i, each in enumerate(parts):
            if not dense.is_finite(each) or not bool(each.any()):
                found.append(0.0 if dense.is_finite(each) else math.nan)
            elif self._shards:
                found.append(self._shards[i].spectrum(each))
            elif min(self._shape) <= few[i]:
                found.append(spectrum(each))
            else:
                shape = {"block": BLOCK, "steps": STEPS, "count": LEADING}
                near = krylov.leading(each, **shape, vectors=0, generator=self._generator)
                found.append(near.spectrum)
        held = matrices or [None] * len(found)  # no matrix is at hand of one that is sharded
        s = found[0]
        if isinstance(s, Spectrum):
            yield from self._columns(s, held[0])
        else:
            yield Column(q.SPECTRAL_NORM, [self._site], [s], form="matrix")
        # what a step added, by itself and beside the weight
        site, form = self._site, "matrix"
        for u, update in zip(found[1:], held[1:], strict=True):
            if not isinstance(u, Spectrum):
                yield Column(q.UPDATE_SPECTRAL_NORM, [site], [u], form=form)
                if u == 0 and isinstance(s, Spectrum):
                    yield Column(q.UPDATE_SPECTRAL_RATIO, [site], [0.0], form=form)
                continue
            wanted = (q.SPECTRAL_NORM, q.STABLE_RANK)
            numbers = measure(u if update is None else update, wanted, s=u).numbers
            norm = numbers[q.SPECTRAL_NORM]
            yield Column.of(q.UPDATE_SPECTRAL_NORM, [(site, norm)], form)
            if isinstance(s, Spectrum):
                ratio = norm / spectral_norm(s)
                yield Column.of(q.UPDATE_SPECTRAL_RATIO, [(site, ratio)], form)
            if q.STABLE_RANK in numbers:
                yield Column.of(q.UPDATE_STABLE_RANK, [(site, numbers[q.STABLE_RANK])], form)
        if isinstance(s, Spectrum):
            yield SiteSpectrum(site, q.WATCH, form, s)

    def _columns(self, s: Spectrum, matrix: Tensor | None) -> Iterator[Column]:
        wanted = [q.SPECTRAL_NORM, q.STABLE_RANK]
        wanted += [q.EFFECTIVE_RANK] if s.complete else []
        bulk = s.complete and min(s.shape) >= FEWEST
        if matrix is not None and bulk and matrix.numel() <= SIGNS:
            wanted += [q.NOISE_EDGE, q.SPIKES]
        of = s if matrix is None else matrix
        found = measure(of, wanted, s=s, generator=self._generator)
        for name, estimate in found.numbers.items():
            yield Column.of(name, [(self._site, estimate)], "matrix")

    def close(self) -> None:
        self._copy = self._update = None


def _cut(weight: Tensor) -> bool:
    """Whether its entries lie on several processes."""
    kind = sharded_kind()
    return kind is not None and isinstance(weight, kind)


def _shape(weight: Tensor) -> tuple[int, int]:
    return weight.shape[0], weight.numel() // max(weight.shape[0], 1)


# ------------------------------------------------------------------------------
# Balances of layers whose decay differs: what decay takes from one, and the other gives back.
#
# Two layers that undo one another's scale keep `‖W‖² + ‖b‖² - ‖V‖²` under gradient flow. Decay of
# one side alone moves it for ever at the same function: nothing is regularised. That two layers do
# undo one another's scale is told by their gradients, `⟨W, ∂W⟩ + ⟨b, ∂b⟩ = ⟨V, ∂V⟩` on every batch,
# so that no graph is traced and compiled models are heard as well.


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
            below, above, speed = row
            # between two readings decay is taken to have gone on at the mean of both speeds
            if pair.first is None:
                pair.first = below, above
            else:
                pair.moved += (pair.speed + speed) / 2 * (self.step - pair.step)
            pair.speed, pair.step = speed, self.step
            size, whole = below + above, below + above + sum(pair.first)
            if not size > 0 or pair.agreed < AGREED:
                continue
            # the imbalance, how it has moved since it was first read, and by decay; in shares
            gone = (below - above - pair.first[0] + pair.first[1]) / whole
            found = (below - above) / size, gone, min(max(pair.moved / whole, -1.0), 1.0)
            if all(map(math.isfinite, found)):
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
    rates = list[float | None]()  # what a step multiplies the decay by
    for g in groups.values():
        rate = None
        if steps_as(pair.optimizer, (SGD,)):  # when momentum has gathered it
            momentum = float(g["momentum"])
            damping = 1 - float(g["dampening"]) if momentum else 1.0
            rate = float(g["lr"]) * damping / (1 - momentum) if momentum < 1 else None
        elif steps_as(pair.optimizer, (AdamW,)) or g.get("decoupled_weight_decay", False):
            rate = float(g["lr"])
        rates.append(rate)
    if len(groups) < len(mine) or any(r is None or r != rates[0] for r in rates):
        return None
    return {i: (rates[0] or 0.0) * float(g["weight_decay"]) for i, g in groups.items()}


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

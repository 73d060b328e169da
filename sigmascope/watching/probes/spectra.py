"""Singular values of the weights, one weight after another."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.records import SiteSpectrum, Skipped, Spectrum
from sigmascope.linalg import krylov, measure, sums
from sigmascope.linalg.spectra import Moments, spectrum
from sigmascope.watching.probes.base import Found, Probe, Sharing, nothing
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
BLOCK, STEPS, LEADING = 12, 6, 6
FEWEST = 8  # of the smaller side, for a bulk
SIGNS = 1 << 20  # entries of a matrix whose noise edge is looked for, at most


# ------------------------------------------------------------------------------
# The probe of weights.


class WeightSpectra(Probe):
    """Norms, ranks and noise edge of one trained weight.

    Up to a side of 768 all singular values are taken, above it the leading ones. Of a sharded
    weight each process hands in the products of its own rows or columns; the weight is not
    gathered.

    Args:
        model: The user's own module.
        processes: Those that train it.
        generator: Of random signs and blocks.
    """

    name = "spectra"
    share = 0.13
    first = 2

    def __init__(self, model: nn.Module, processes: Processes, generator: torch.Generator) -> None:
        self._weights = [
            (n, p) for n, p in model.named_parameters()
            if p.requires_grad and p.ndim > 1 and p.is_floating_point() and min(_shape(p)) > 1
        ]  # fmt: skip
        self._processes, self._generator = processes, generator
        self._turn = 0
        self._shape, self._site = (0, 0), ""
        self._matrix: Tensor | None = None
        self._shards: Shards | None = None
        self._block: Tensor | None = None
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
        if small <= FULL:
            return 1e-3 + 1e-10 * small * small * (max(m, n) + 6 * small)
        return 1e-2 + 1e-10 * m * n * BLOCK * 2 * STEPS

    def agree(self) -> Sharing:
        self._site, weight = self._weights[self._turn]
        self._turn = (self._turn + 1) % len(self._weights)
        self._shape = _shape(weight)
        kind = sharded_kind()
        self._matrix, self._shards = None, None
        if kind is not None and isinstance(weight, kind):
            yield nothing()  # what is cut both ways is made whole one way by all together
            self._shards = Shards.of(weight.detach(), self._processes)
            self._block = yield from self._shards.block(self._generator)
        elif self._processes.rank == 0:
            self._matrix = weight.detach().flatten(1).cpu()

    def local(self) -> Tensor:
        return nothing() if self._shards is None else self._shards.part(self._block)

    def read(self, total: Tensor) -> Iterator[Found]:
        matrix, self._matrix = self._matrix, None
        checked = total if matrix is None else matrix
        if not sums.is_finite(checked) or not bool(checked.any()):
            value = 0.0 if sums.is_finite(checked) else math.nan
            yield Column(q.SPECTRAL_NORM, [self._site], [value], form="matrix")
            return
        if matrix is None:
            assert self._shards is not None
            s = self._shards.spectrum(total)
        elif min(self._shape) <= FULL:
            s = spectrum(matrix)
        else:
            shape = {"block": BLOCK, "steps": STEPS, "count": LEADING}
            leading = krylov.leading(matrix, **shape, vectors=0, generator=self._generator)
            s = leading.spectrum
        yield from self._columns(s, matrix)
        yield SiteSpectrum(self._site, q.WATCH, "matrix", s)

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


def _shape(weight: Tensor) -> tuple[int, int]:
    return weight.shape[0], weight.numel() // max(weight.shape[0], 1)

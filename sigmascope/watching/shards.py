"""Singular values of a weight whose rows or columns lie on several processes, without gathering it.

Of rows `L` on each process, `WᵀW` is the sum of `LᵀL`. Up to some thousands of columns that sum is
made and solved; above, a block of vectors is multiplied by it until it holds the leading ones. The
invariant: no process ever holds more of the weight than it did, but for one that is cut both ways,
whose rows are made whole first.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.spectra import Moments
from sigmascope.records import Spectrum
from sigmascope.watching.processes import Processes, is_cut, part

GRAM = 2048  # columns up to which their products are summed
BLOCK, STEPS, LEADING = 16, 8, 6
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
        held: Any = _cut_one_way(weight)
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
        L, k = self.rows.double(), min(BLOCK, *self.shape)
        Y = yield torch.randn(self.shape[1], k, generator=generator, dtype=L.dtype).flatten()
        for _ in range(STEPS):
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
            return self._of_block(total, shape)
        moments = Moments(m, torch.zeros(n, dtype=total.dtype), total.view(n, n))
        found = moments.spectrum(centred=False)
        return Spectrum(found.sigma, shape, "gram of shards", found.low, found.high)

    def _of_block(self, total: Tensor, shape: tuple[int, int]) -> Spectrum:
        """Values of a block are never above the true ones; what energy is left bounds them."""
        k = math.isqrt(len(total) - 1)
        squares = torch.linalg.eigvalsh(total[:-1].view(k, k)).flip(0).clamp_min(0)
        energy = float(total[-1])
        high = torch.maximum(energy - squares.sum() + squares, squares)  # all others taken off
        slack = ROUNDING * energy
        low = (squares - slack).clamp_min(0)
        ends = [t[:LEADING].sqrt() for t in (squares, low, high + slack)]
        return Spectrum(ends[0], shape, f"block of shards ({k} x {STEPS})", ends[1], ends[2])


def _cut_one_way(weight: Tensor) -> Tensor:
    """Whole rows, where a weight is cut by rows and by columns."""
    from torch.distributed.tensor import DTensor, Replicate

    assert isinstance(weight, DTensor)
    held: Any = weight
    dims = {p.dim for p in held.placements if is_cut(p)}
    if len(dims) < 2:
        return weight
    whole = [Replicate() if is_cut(p) and p.dim > 0 else p for p in held.placements]
    return weight.redistribute(placements=whole)

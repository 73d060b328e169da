"""What the entries of a matrix say before any factorisation: one pass, by panels."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.records import Estimate
from sigmascope.linalg.dense import EPS, times
from sigmascope.linalg.random_matrix import RandomSigns

PANEL = 2**18  # entries at a time: what is read once stays in the cache while it is counted
LEAST, MOST = 2.0**-500, 2.0**500  # between these the root of a square is what was squared
LIMITS = {  # smallest normal and largest finite number of each format of storage
    "float64": (2.0**-1022, float(torch.finfo(torch.float64).max)),
    "float32": (2.0**-126, float(torch.finfo(torch.float32).max)),
    "bfloat16": (2.0**-126, float(torch.finfo(torch.bfloat16).max)),
    "float16": (2.0**-14, 65504.0),
}


@dataclass(frozen=True, slots=True)
class Entries:
    """Counts over the entries of a matrix, and sums in a unit in which float64 holds their squares.

    Attributes:
        count: Entries.
        energy: Sum of their squares.
        rows: Squared norms of the rows.
        cols: Squared norms of the columns.
        total: Their sum, not squared.
        largest: The largest absolute value.
        power: The unit of all these is `2^power`.
        empty: How many rows, and how many columns, are exactly zero.
        zeros: How many are exactly zero.
        subnormal: How many are not zero and below the smallest normal number of their format.
        saturated: How many are at the largest number of their format.
        odd: How many are infinite or nan.
    """

    count: int
    energy: Estimate
    rows: Float64[Tensor, " m"]
    cols: Float64[Tensor, " n"]
    total: float
    largest: float
    power: int
    empty: tuple[int, int]
    zeros: int
    subnormal: int
    saturated: int
    odd: int

    @property
    def rms(self) -> float:
        """Root mean square of the entries."""
        return math.sqrt(self.energy.value / self.count)

    @property
    def mean(self) -> Estimate:
        """Mean of the entries, with what adding them up may have rounded."""
        gap = (self.count + 2) * EPS * self.rms
        return Estimate.within(self.total / self.count, gap, how="summed")

    @property
    def spread(self) -> Estimate:
        """Standard deviation of the entries; the low end is 0 where rounding may be all of it."""
        return (self.energy / self.count - self.mean**2).sqrt()

    def signs(
        self, A: Float[Tensor, "m n"], generator: torch.Generator | None = None
    ) -> RandomSigns:
        """Random signs of the matrix that was read, in the unit in which it was."""
        longest = (math.sqrt(float(self.rows.max())), math.sqrt(float(self.cols.max())))
        return RandomSigns(
            A, rms=self.rms, longest=longest, largest=self.largest, generator=generator
        )


def entries(A: Float[Tensor, "m n"], dtype: str, *, power: int = 0) -> Entries:
    """Read every entry once.

    Args:
        A: The matrix.
        dtype: How it is stored, which says where its numbers end.
        power: Of the unit `2^power` in which sums are made.
    """
    cols = torch.zeros(A.shape[1], dtype=torch.float64)
    height = min(len(A), max(1, PANEL // A.shape[1]))
    rooms = torch.empty(2, height * A.shape[1], dtype=torch.float64)
    seen = _Seen(*LIMITS.get(dtype, (0.0, math.inf)), power, cols, rooms)
    for panel in A.split(height):
        seen.read(panel)
    rows = torch.cat(seen.rows)
    value = seen.energy
    gap = value * (A.numel() + 2) * EPS
    energy = Estimate(value, max(value - gap, 0.0), value + gap, "summed")
    empty = (0, 0) if seen.odd else (_empty(A, rows, 1), _empty(A, cols, 0))
    counts = seen.zeros, seen.subnormal, seen.saturated, seen.odd
    sums = energy, rows, cols, seen.total, seen.largest
    return Entries(A.numel(), *sums, power, empty, *counts)


def _empty(A: Tensor, sums: Tensor, dim: int) -> int:
    """How many are exactly zero, of those whose squares are, which may have been too small."""
    places = (sums == 0).nonzero()[:, 0]
    some = A.index_select(1 - dim, places)
    return int((~(some != 0).any(dim)).sum()) if len(places) else 0


@dataclass(slots=True)
class _Seen:
    """What was counted up to now."""

    least: float
    most: float
    power: int
    cols: Float64[Tensor, " n"]
    rooms: Float64[Tensor, "2 k"]
    rows: list[Tensor] = field(default_factory=list)
    energy: float = 0.0
    total: float = 0.0
    largest: float = 0.0
    zeros: int = 0
    subnormal: int = 0
    saturated: int = 0
    odd: int = 0

    def read(self, panel: Float[Tensor, "k n"]) -> None:
        """Count a panel; one with infinities or nan is counted for these alone."""
        D, squares = (room[: panel.numel()].view_as(panel) for room in self.rooms)
        D.copy_(panel)
        torch.mul(D, D, out=squares)
        low, high = (math.sqrt(float(end)) for end in torch.aminmax(squares))
        if not max(LEAST, self.least) <= low <= high < MOST:  # else they are entries, unrounded
            size = D.abs()
            low, high = (float(end) for end in torch.aminmax(size))
            if not math.isfinite(high):
                self.odd += int((~D.isfinite()).sum())
                self.rows.append(D.new_zeros(len(D)))
                return
            if low == 0 or low < self.least:  # else there is nothing to count
                zeros = size.numel() - int(size.count_nonzero())
                self.zeros += zeros
                self.subnormal += int((size < self.least).sum()) - zeros if self.least else 0
        self.largest = max(self.largest, math.ldexp(high, -self.power))
        self.saturated += int((D.abs() >= self.most).sum()) if high >= self.most else 0
        if self.power:
            D.copy_(times(D, -self.power))
            torch.mul(D, D, out=squares)
        self.total += float(D.sum())
        rows = squares.sum(1)
        self.rows.append(rows)
        self.cols += squares.sum(0)
        self.energy += float(rows.sum())

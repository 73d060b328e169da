"""What the entries of a matrix say before any factorisation: one pass, by panels."""

import math
from dataclasses import dataclass, field
from functools import cache

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.records import Estimate

PANEL = 2**18  # entries at a time: what is read once stays in the cache while it is counted
EPS = 2.0**-52
LIMITS = {  # smallest normal and largest finite number of each format of storage
    "float64": (2.0**-1022, float(torch.finfo(torch.float64).max)),
    "float32": (2.0**-126, float(torch.finfo(torch.float32).max)),
    "bfloat16": (2.0**-126, float(torch.finfo(torch.bfloat16).max)),
    "float16": (2.0**-14, 65504.0),
}


@dataclass(frozen=True, slots=True)
class Entries:
    """Counts and sums over the entries of a matrix.

    Attributes:
        count: Entries.
        energy: Sum of their squares.
        rows: Squared norms of the rows.
        cols: Squared norms of the columns.
        total: Their sum.
        largest: The largest absolute value.
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
    zeros: int
    subnormal: int
    saturated: int
    odd: int

    @property
    def rms(self) -> float:
        """Root mean square of the entries."""
        return math.sqrt(self.energy.value / self.count)

    @property
    def spread(self) -> float:
        """Standard deviation of the entries."""
        mean = self.total / self.count
        return math.sqrt(max(self.energy.value / self.count - mean * mean, 0.0))


def entries(A: Float[Tensor, "m n"], dtype: str) -> Entries:
    """Read every entry once.

    Args:
        A: The matrix.
        dtype: How it is stored, which says where its numbers end.
    """
    seen = _Seen(*LIMITS.get(dtype, (0.0, math.inf)), torch.zeros(A.shape[1], dtype=torch.float64))
    for panel in A.split(max(1, PANEL // A.shape[1])):
        seen.read(panel)
    sums = torch.cat(seen.rows)
    value = seen.energy
    gap = value * (A.numel() + 2) * EPS
    energy = Estimate(value, max(value - gap, 0.0), value + gap, "summed")
    counts = seen.zeros, seen.subnormal, seen.saturated, seen.odd
    return Entries(A.numel(), energy, sums, seen.cols, seen.total, seen.largest, *counts)


@dataclass(slots=True)
class _Seen:
    """What was counted up to now."""

    least: float
    most: float
    cols: Float64[Tensor, " n"]
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
        D = panel.double()
        size = D.abs()
        low, high = (float(end) for end in torch.aminmax(size))
        if not math.isfinite(high):
            self.odd += int((~D.isfinite()).sum())
            self.rows.append(D.new_zeros(len(D)))
            return
        self.largest = max(self.largest, high)
        if low == 0 or low < self.least:  # else there is nothing to count
            zeros = size.numel() - int(size.count_nonzero())
            self.zeros += zeros
            self.subnormal += int((size < self.least).sum()) - zeros if self.least else 0
        self.saturated += int((size >= self.most).sum()) if high >= self.most else 0
        self.total += float(D.sum())
        squares = D.square()
        rows = squares.sum(1)
        self.rows.append(rows)
        self.cols += squares.sum(0)
        self.energy += float(rows.sum())


def sketch(A: Float[Tensor, "m n"], buckets: int = 256) -> Float[Tensor, " k"]:
    """A short vector whose inner products are those of matrices of one shape, up to chance.

    Entries get fixed signs and are added up in `buckets`; the cosine of two unrelated matrices is
    off by about `1 / √buckets`. Equal matrices have equal sketches, bit for bit.

    Source:
        Charikar, Chen & Farach-Colton 2002, count sketch.
    """
    table, size = _signs()
    flat = A.reshape(-1)
    found = torch.zeros(buckets, dtype=torch.float64)
    for i, block in enumerate(flat.split(size)):
        signed = block.float() * table[: len(block)]
        pad = -len(signed) % buckets
        if pad:
            signed = torch.nn.functional.pad(signed, (0, pad))
        sign = 1.0 if bin(i * 0x9E3779B1 & 0xFFFFFFFF).count("1") % 2 else -1.0
        found += sign * signed.view(-1, buckets).sum(0, dtype=torch.float64)
    return found.float()


@cache
def _signs() -> tuple[Float[Tensor, " k"], int]:
    """The same signs on every machine, from a generator of their own."""
    size = 2**18
    draw = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(20260101))
    return (2 * draw - 1).float(), size

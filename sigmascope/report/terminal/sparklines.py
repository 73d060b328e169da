"""A curve in one line of text."""

import math
from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a log scale shows `values` better: all positive, the largest 30 times the least."""
    return bool(values) and min(values) > 0 and max(values) >= 30 * min(values)


def sparkline(values: Sequence[float | None], *, width: int) -> str:
    """`values` as at most `width` blocks, on a log scale where they span decades.

    Equal values draw a line in the middle. Where there are more values than blocks, each block
    stands for the mean of its share. What is not finite is drawn as `!`, what is None as a gap.

    Example:
        >>> sparkline([1.0, 2.0, 3.0, 4.0], width=8)
        '▁▃▆█'
    """
    finite = [v for v in values if v is not None and math.isfinite(v)]
    scale = math.log if spans_decades(finite) else float
    scaled = [v if v is None else scale(v) if math.isfinite(v) else math.nan for v in values]
    levels = [_mean(share) for share in _shares(scaled, width)]
    known = [v for v in levels if v is not None and not math.isnan(v)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(" " if v is None else _block(v, low, high) for v in levels)


def _shares(values: Sequence[float | None], width: int) -> list[Sequence[float | None]]:
    count = min(len(values), width)
    edges = [i * len(values) // count for i in range(count + 1)] if count else [0]
    return [values[a:b] for a, b in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values there are; a nan makes it nan, for it must not be averaged away."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _block(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "!"
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return _BLOCKS[3]
    return _BLOCKS[round((value - low) / (high - low) * (len(_BLOCKS) - 1))]

"""Networks against one another, over several seeds."""

import math
from collections.abc import Sequence

from scipy.stats import t as student

from sigmascope_experiments.figures import Claim, untested

RISK = 0.05  # that an interval misses the mean difference


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Mean of `first - second` over pairs, and the ends of its interval.

    Args:
        first: One number for each seed, two or more.
        second: The same, of the same seeds.

    Source:
        Student 1908, of paired differences.
    """
    apart = [a - b for a, b in zip(first, second, strict=True)]
    mean = sum(apart) / len(apart)
    spread = math.sqrt(sum((d - mean) ** 2 for d in apart) / (len(apart) - 1))
    half = float(student.ppf(1 - RISK / 2, len(apart) - 1)) * spread / math.sqrt(len(apart))
    return mean, mean - half, mean + half


def at_least(says: str, first: Sequence[float], second: Sequence[float], more: str = "") -> Claim:
    """That the first is at least the second: holds or fails where the interval is on one side of 0.

    Args:
        says: What should hold.
        first: One number for each seed.
        second: The same, of the same seeds.
        more: Words to add to what was found.
    """
    if len(first) < 2:
        return untested(says, "one seed has no error bar")
    mean, low, high = difference(first, second)
    found = (
        f"{sum(first) / len(first):.3f} against {sum(second) / len(second):.3f}{more}, difference "
        f"{mean:.3f} in [{low:.3f}, {high:.3f}] over {len(first)} seeds"
    )
    if low < 0 <= high:
        return untested(says, f"{found}, which does not tell")
    return Claim(says, found, low >= 0)

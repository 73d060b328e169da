"""Numbers as a reader wants them: few digits, and the interval where it says something."""

import math

from sigmascope.records import Estimate

NEGLIGIBLE = 1e-3  # relative width of an interval below which the digits shown say it all


def compact(number: float, *, digits: int = 4) -> str:
    """`number` with a few significant digits.

    Example:
        >>> [compact(x) for x in (0.0, 64.0, 1.02345, 123456.0, 5.1e-11, math.inf)]
        ['0', '64', '1.023', '1.235e5', '5.1e-11', '∞']
    """
    if not math.isfinite(number):
        return "nan" if math.isnan(number) else "∞" if number > 0 else "-∞"
    if number == round(number) and abs(number) < 1e5:
        return f"{number:.0f}"
    if 1e-3 <= abs(number) < 1e5:
        return f"{number:.{digits}g}" if abs(number) < 10**digits else f"{number:.0f}"
    mantissa, _, exponent = f"{number:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def matters(estimate: Estimate) -> bool:
    """Whether the interval is wide enough to be shown."""
    width = estimate.high - estimate.low
    return not width <= NEGLIGIBLE * abs(estimate.value)


def measured(estimate: Estimate) -> str:
    """The value, with its interval where it matters.

    Example:
        >>> measured(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        '12.3 [11.9, 12.8]'
    """
    if not matters(estimate):
        return compact(estimate.value)
    value, low, high = (compact(x, digits=3) for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def counted(estimate: Estimate) -> str:
    """A count, with both ends where they differ; for tables.

    Example:
        >>> counted(Estimate(3, 3, 7, "gram")), counted(Estimate.exactly(8))
        ('3–7', '8')
    """
    ends = compact(estimate.low), compact(estimate.high)
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def within(estimate: Estimate) -> str:
    """The value, with the half-width of its interval in per cent where it matters; for tables.

    Example:
        >>> within(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        '12.3 ±5%'
    """
    gap = max(estimate.high - estimate.value, estimate.value - estimate.low)
    if not matters(estimate) or not gap < 10 * abs(estimate.value):
        return measured(estimate)
    half = 100 * gap / abs(estimate.value)
    per_cent = math.ceil(half) if half > 1 else math.ceil(100 * half) / 100
    return f"{compact(estimate.value, digits=3)} ±{per_cent:g}%"


def sized(count: int) -> str:
    """Bytes with a unit.

    Example:
        >>> [sized(n) for n in (512, 14_500_000, 3_200_000_000)]
        ['512 bytes', '14.5 MB', '3.2 GB']
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{compact(count / 10**power, digits=3)} {unit}"
    return f"{count} bytes"


def lasting(seconds: float) -> str:
    """A time with a unit.

    Example:
        >>> [lasting(t) for t in (1.26, 90.0, 5400.0, 200000.0)]
        ['1.3 seconds', '1.5 minutes', '90 minutes', '56 hours']
    """
    if seconds < 60:
        return f"{compact(seconds, digits=2)} seconds"
    if seconds < 7200:
        return f"{compact(seconds / 60, digits=2)} minutes"
    return f"{compact(seconds / 3600, digits=2)} hours"


def risk(estimate: Estimate) -> str:
    """The chance that the interval misses, in words; empty where there is none.

    Example:
        >>> risk(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        'the interval misses with chance at most 0.05'
    """
    if estimate.risk == 0:
        return ""
    return f"the interval misses with chance at most {compact(estimate.risk, digits=2)}"

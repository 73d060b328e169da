"""How badly conditioned a skip layer with small weights can be, in numbers."""

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class HardBounds:
    """What is known of `κ(M(1) D)` from `c`, `n`, `m` and `η`; infinite where a condition fails.

    Attributes:
        printed: By equation number, as the paper has them.
        sharper: `(101)` with the root that its own proof gives.
        best: By interlacing, `(1 + cn) / (1 - cn)` over `η` for leaky activations: never larger
            than any of the others.
    """

    printed: dict[str, float]
    sharper: float
    best: float


def hard_bounds(c: float, n: int, *, m: int, eta: float) -> HardBounds:
    """Every sure bound of `κ(M(1) D)`.

    Args:
        c: Largest size of a weight.
        n: Width.
        m: Units on the negative side.
        eta: Their slope, in [-1, 1]; the bounds in print are for -1 and for 0 to 1.

    Raises:
        ValueError: If a number is out of range.

    Source:
        Riedi et al. 2022, Theorems 30 to 32; interlacing by their Eq. (23) and Lemma 24.

    Example:
        >>> found = hard_bounds(1 / 24, 8, m=2, eta=0)
        >>> round(found.printed["(90)"], 6), round(found.best, 6)
        (8.0, 2.0)
    """
    if not (c >= 0 and n >= 1 and 0 <= m <= n and -1 <= eta <= 1):
        raise ValueError(
            f"`hard_bounds` needs c >= 0, n >= 1, 0 <= m <= n and -1 <= eta <= 1, got c={c}, n={n},"
            f" m={m}, eta={eta}."
        )
    cn, width = c * n, n
    left = float(1 - Fraction(c) * n)  # 1 - cn, of which rounding would leave nothing near c = 1/n
    small = left > 0
    relu = small and eta == 0 and 1 <= m < n
    leaky = small and 0 <= eta <= 1
    loss = (1 - eta) * m * (3 * c + 1)
    printed = {
        "(88)": _over(cn, left) if small and eta == -1 else math.inf,
        "(89)": _over(cn, _root(1 - 2 * cn * (1 + width))) if relu else math.inf,
        "(90)": _over(cn, left - math.sqrt(m / n)) if relu else math.inf,
        "(91)": _over(cn, _root(1 - 2 * cn * (1 + 2 * m))) if relu else math.inf,
        "(100)": _over(cn, _root(left**2 - 4 * (1 - eta) * math.sqrt(m)))
        if leaky and n >= 5 and eta > 0
        else math.inf,
        "(101)": _over(cn, left - loss) if leaky and eta > 0 else math.inf,
    }
    root = (1 - eta) * math.sqrt(m * (3 * c + 1))
    sharper = _over(cn, left - root) if leaky and eta > 0 else math.inf
    slope = abs(eta) if eta != 0 and m > 0 else 1.0
    best = _over(cn, left) / slope if small and (m < n or eta != 0) else math.inf
    return HardBounds(printed, sharper, best)


def _over(cn: float, below: float) -> float:
    return (1 + cn) / below if below > 0 else math.inf


def _root(x: float) -> float:
    return math.sqrt(x) if x > 0 else 0.0

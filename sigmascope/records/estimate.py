"""A measured number together with the interval it is defended on.

Estimates can be added, subtracted, multiplied, divided and raised to powers, so that whatever is
computed from measured numbers carries their errors with it, cancellation included: interval
arithmetic (Moore 1966). The invariant: if the true operands lie within their intervals, the true
result lies within its own. Every end is rounded outwards, so that no number of roundings has to be
guessed anywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from torch import Tensor

LARGEST = math.nextafter(math.inf, 0)
NORMAL = 2.0**-1022
LIBRARY = 4  # units in the last place that `log`, `exp` and `pow` of the C library may be off by


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, the interval we defend it on, and the route that produced it.

    Attributes:
        value: The best single number, in the unit of the quantity measured.
        low: The true value is at least this; `-inf` where nothing is known.
        high: The true value is at most this; `inf` where nothing is known.
        how: Route and its knobs, e.g. `"exact"` or `"golub-kahan(steps=64)"`.
        risk: Chance, over the route's own randomness, that the interval misses; 0 when the route
            is deterministic.
    """

    value: float
    low: float
    high: float
    how: str
    risk: float = 0.0

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:  # nan fails every comparison
            raise ValueError(
                f"An estimate needs low <= value <= high, got {self.low} <= {self.value} <= "
                f"{self.high} from {self.how}. A nan here means the input was not finite."
            )

    @classmethod
    def exactly(cls, value: float, *, how: str = "exact") -> "Estimate":
        """A number known without error."""
        return cls(value, value, value, how)

    @classmethod
    def rounded(cls, value: float, *, ulps: float, how: str = "exact") -> "Estimate":
        """A number known up to `ulps` float64 roundings of its own size, and so of its own sign."""
        gap = abs(value) * ulps * 2.0**-52
        if 0 < abs(value) < NORMAL:  # roundings are no smaller than the grid of subnormal numbers
            gap = math.ceil(ulps) * math.ulp(0.0)
            if gap >= abs(value):
                low, high = sorted((0.0, math.copysign(abs(value) + gap, value)))
                return cls(value, low, high, how)
        return cls.within(value, gap, how=how)

    @classmethod
    def within(cls, value: float, gap: float, *, how: str = "exact") -> "Estimate":
        """A number known up to an error of `gap` either way; an infinite one is taken as it is."""
        if math.isinf(value):
            return cls.exactly(value, how=how)
        return cls(value, value - gap, value + gap, how)

    @classmethod
    def sum_of_squares(cls, A: Tensor) -> "Estimate":
        """`Σ a²` over the entries of a float64 tensor, with what adding them up may have rounded.

        Source:
            Higham 2002, Accuracy and Stability of Numerical Algorithms, (3.5), for any order.
        """
        value, terms = float(A.square().sum()), A.numel() + 2
        if math.isinf(value):
            return cls(value, LARGEST, value, "exact")
        gap = value * terms * 2.0**-52 + terms * math.ulp(0.0)  # and squares that underflow
        return cls(value, max(value - gap, 0.0), value + gap, "exact")

    def __neg__(self) -> "Estimate":
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def __add__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        return self._with(o, self.value + o.value, self.low + o.low, self.high + o.high)

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        return self + -_estimate(other)

    def __rsub__(self, other: float) -> "Estimate":
        return -self + other

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        ends = [_times(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return self._with(o, _times(self.value, o.value), min(ends), max(ends))

    def __truediv__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        if o.low < 0 < o.high or o.low == o.high == 0:
            return self._with(o, _over(self.value, o.value), -math.inf, math.inf)
        # a zero at an end of an interval is approached from inside it
        low, high = o.low or 0.0, o.high if o.high != 0 else -0.0
        ends = [_over(a, b) for a in (self.low, self.high) for b in (low, high)]
        return self._with(o, _over(self.value, o.value), min(ends), max(ends))

    def __rtruediv__(self, other: float) -> "Estimate":
        return _estimate(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: float | Fraction) -> "Estimate":
        """A power of a number that is not negative; what lies below zero is cut off as rounding.

        A fraction that no float is, as 2/3, belongs in `power` as one: rounded, it would leave the
        powers of very large and very small numbers off by more than their own rounding.
        """
        if power == 2 and self.low < 0:
            ends = (abs(self.low), abs(self.high))
            least = 0.0 if self.high >= 0 else min(ends)
            return Estimate(abs(self.value), least, max(ends), self.how, self.risk) ** 2
        near = float(power)
        off = abs(float(Fraction(power) - Fraction(near)))  # by which x^p is off, times log x
        far = max(
            (abs(math.log(x)) for x in (self.low, self.high) if 0 < x < math.inf), default=0.0
        )
        found = self._through(
            lambda x: _power(max(x, 0.0), near),
            falling=power < 0,
            ulps=LIBRARY + math.ceil(off * far * 2.0**54),
        )
        return found.at_least(0.0)

    def sqrt(self) -> "Estimate":
        """The root; what lies below zero is cut off as rounding."""
        return self**0.5

    def log(self) -> "Estimate":
        """The natural logarithm; minus infinity at zero and below."""
        return self._through(lambda x: math.log(x) if x > 0 else -math.inf)

    def exp(self) -> "Estimate":
        """The exponential; infinite where it is beyond float64."""
        return self._through(_exp)

    def at_least(self, floor: float) -> "Estimate":
        """The larger of the number and `floor`."""
        return self._through(lambda x: max(x, floor), ulps=0)

    def at_most(self, ceiling: float) -> "Estimate":
        """The smaller of the number and `ceiling`."""
        return self._through(lambda x: min(x, ceiling), ulps=0)

    def exceeds(self, other: "Estimate") -> bool:
        """Whether the intervals prove that this number is the larger."""
        return self.low > other.high

    @property
    def positive(self) -> bool | None:
        """Whether the number is above zero; None where the interval cannot tell."""
        return True if self.low > 0 else False if self.high <= 0 else None

    def _with(self, other: "Estimate", value: float, low: float, high: float) -> "Estimate":
        risk = min(1.0, self.risk + other.risk)
        return _outwards(value, low, high, how=_both(self.how, other.how), risk=risk)

    def _through(
        self, f: Callable[[float], float], *, falling: bool = False, ulps: int = LIBRARY
    ) -> "Estimate":
        low, high = (self.high, self.low) if falling else (self.low, self.high)
        return _outwards(f(self.value), f(low), f(high), how=self.how, risk=self.risk, ulps=ulps)


def largest(*estimates: Estimate) -> Estimate:
    """The largest of some numbers, each of which lies within its own interval.

    Source:
        Moore 1966, Interval Analysis: the maximum rises with every operand.
    """
    how, risk = estimates[0].how, min(1.0, sum(e.risk for e in estimates))
    low, high = max(e.low for e in estimates), max(e.high for e in estimates)
    return Estimate(max(e.value for e in estimates), low, high, how, risk)


def entrywise(value: Tensor, low: Tensor, high: Tensor, *, how: str) -> tuple[Estimate, ...]:
    """One estimate for each entry of a vector with its ends, as those of a spectrum.

    Args:
        value: The best numbers.
        low: Their lower ends.
        high: Their upper ends.
        how: The route of all.

    Source:
        Of the ends, where they are those of `spectrum`: Weyl 1912.
    """
    rows = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Estimate(v, least, most, how) for v, least, most in rows)


def _estimate(x: "Estimate | float") -> Estimate:
    return x if isinstance(x, Estimate) else Estimate.exactly(x)


def _both(one: str, other: str) -> str:
    """Both routes; that of a plain number goes without saying."""
    if one == other or other == "exact":
        return one
    return other if one == "exact" or one in other else one if other in one else f"{one}, {other}"


def _outwards(
    value: float, low: float, high: float, *, how: str, risk: float, ulps: int = 1
) -> Estimate:
    """Ends moved out by the rounding of one operation; infinite differences know nothing."""
    low = -math.inf if math.isnan(low) else low
    high = math.inf if math.isnan(high) else high
    if ulps:
        low = low - ulps * math.ulp(low) if math.isfinite(low) else low
        high = high + ulps * math.ulp(high) if math.isfinite(high) else high
    if math.isnan(value):
        value = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    # what overflowed is a number too large to write down, not one known to be infinite
    low, high = min(low, LARGEST), max(high, -LARGEST)
    return Estimate(min(max(value, low), high), low, high, how, risk)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _over(a: float, b: float) -> float:
    if a == 0:
        return 0.0
    return a / b if b != 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(x: float, power: float) -> float:
    if x == 0:
        return 0.0 if power > 0 else math.inf if power < 0 else 1.0
    try:
        return x**power
    except OverflowError:
        return math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf

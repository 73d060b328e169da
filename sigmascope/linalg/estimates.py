"""A measured number together with the interval it is defended on."""

from dataclasses import dataclass


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
        """A number known up to `ulps` float64 roundings of its own size."""
        gap = abs(value) * ulps * 2.0**-52
        return cls(value, value - gap, value + gap, how)

    def __mul__(self, other: "Estimate") -> "Estimate":
        """Product of two non-negative estimates: ends multiply, risks add."""
        return Estimate(
            self.value * other.value,
            self.low * other.low,
            self.high * other.high,
            how=self.how if self.how == other.how else f"{self.how} * {other.how}",
            risk=self.risk + other.risk,
        )

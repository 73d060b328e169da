"""What energy a spectrum has left without its first values, in spite of rounding."""

from dataclasses import dataclass
from functools import cached_property

from sigmascope.records import Spectrum


@dataclass(frozen=True)
class Left:
    """Energy that is left without the first k values: of a spectrum that is not whole, at most.

    Attributes:
        s: The spectrum.
        known: Without how many values what is left was added up entry by entry; taking squares of
            computed values off a sum leaves what rounding left of them.
        energy: What that came to.
    """

    s: Spectrum
    known: int
    energy: float

    def without(self, k: int) -> float:
        """Without the first k."""
        if self.s.complete:  # from the smallest on, so that nothing cancels
            return self._tails[k] if k < len(self.s.sigma) else 0.0
        return max(self.energy - float(self.s.low[self.known : k].square().sum()), 0.0)

    def sharp(self, k: int) -> bool:
        """Whether that is known to a hundredth, in spite of what rounding took from the values."""
        if self.s.complete:
            return True
        sigma, low = (end[self.known : k].square().sum() for end in (self.s.sigma, self.s.low))
        return float(sigma - low) <= 0.01 * self.without(k)

    @cached_property
    def _tails(self) -> list[float]:
        return self.s.sigma.square().flip(0).cumsum(0).flip(0).tolist()

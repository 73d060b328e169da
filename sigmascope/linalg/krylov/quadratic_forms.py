"""What quadratic forms at random vectors prove of a trace, whatever the eigenvalues are."""

import math
from dataclasses import dataclass

import scipy
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.refusals import require_between
from sigmascope.records import Estimate


def trace_of_forms(
    forms: Float64[Tensor, "blocks k"],
    *,
    how: str,
    risk: float = 0.05,
    largest: float | None = None,
) -> Estimate:
    """Trace of a positive semi-definite `B`, from `xᵀ B x` at k independent normal vectors.

    The interval assumes nothing of the eigenvalues: one of them may be all there is, which a mean
    and its spread over few forms do not show. With a single vector it is wide and still holds.

    Args:
        forms: `xⱼᵀ B xⱼ`, entries of `xⱼ` standard normal. Where `B` is block diagonal, one row for
            each block, which says that none of them can be all there is.
        how: The route.
        risk: Chance that the interval misses.
        largest: Largest eigenvalue of the matrix of all `xᵢᵀ B xⱼ`, or a number above it; the
            smaller, the narrower the interval. Of several blocks, the largest of theirs.

    Returns:
        The mean of the forms, added up over the blocks.

    Raises:
        ValueError: If `risk` is not in (0, 1).

    Source:
        Székely & Bakirov 2003 and Roosta-Khorasani, Székely & Ascher 2015, Theorem 2: no weights
        make a sum of chi squares stray further than one of them alone; Laurent & Massart 2000,
        Lemma 1, where the largest eigenvalue is bounded.
    """
    require_between(risk, 2.0**-52, 1, name="risk", instead="It is a chance, e.g. 0.05.")
    k = forms.shape[1]
    mean = float(forms.sum(0).mean())
    least = float(forms.sum(1).amax()) if largest is None else largest
    known = Chances(k, risk).bounds(mean, least)
    return Estimate(mean, min(known.low, mean), max(known.high, mean), how, risk)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a positive semi-definite matrix.

    Attributes:
        low: Its trace is at least this.
        high: Its trace is at most this.
        top: Its largest eigenvalue is at most this.
    """

    low: float
    high: float
    top: float


@dataclass(frozen=True, slots=True)
class Chances:
    """How far the mean of `k` forms strays, with how a risk is spent.

    A third of it on the two ends that hold for any eigenvalues, a sixth on the bound of the largest
    of them, and half on the two ends that this bound gives.
    """

    k: int
    risk: float

    def bounds(self, mean: float, largest: float) -> Bounds:
        """Ends of the trace and the largest eigenvalue.

        Args:
            mean: Of the forms.
            largest: Eigenvalue of the matrix of all products of the vectors, which is at least
                `λ ‖z‖²` for an eigenvalue λ on whose vector the k have the components z.
        """
        k = self.k
        top = largest / self._lower(self.risk / 6)
        spread = top * math.log(4 / self.risk) / k
        plain = mean * k / self._lower(self.risk / 6), mean * k / self._upper(self.risk / 6)
        high = (math.sqrt(spread) + math.sqrt(spread + mean)) ** 2
        low = max(math.sqrt(max(mean - spread, 0.0)) - math.sqrt(spread), 0.0) ** 2
        return Bounds(max(low, plain[1]), min(high, plain[0]), top)

    def deviation(self, square: float, top: float) -> float:
        """How far the mean of forms of any square `A` strays from its trace, on either side.

        Args:
            square: Bound of `‖A‖_F²`.
            top: Bound of `‖A‖₂²`.
        """
        t = math.log(2 / self.risk) / self.k
        return 2 * math.sqrt(square * t) + 2 * math.sqrt(min(top, square)) * t

    def _lower(self, chance: float) -> float:
        """What a chi square of k degrees of freedom is below with this chance."""
        return max(2 * float(scipy.special.gammaincinv(self.k / 2, chance)), 5e-324)

    def _upper(self, chance: float) -> float:
        """What it is above with this chance; the theorem speaks of what is above `k + 1`."""
        return max(float(scipy.special.chdtri(self.k, chance)), self.k + 1.0)

"""The singular values of one matrix."""

from dataclasses import dataclass, field

from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The singular values of one matrix, largest first, each with its interval.

    Attributes:
        sigma: Singular values, descending, not squared.
        shape: `(rows, cols)` of the matrix they belong to.
        how: Route that produced them, e.g. `"exact"`.
        low: The i-th largest singular value is at least `low[i]`; `sigma` itself when omitted.
        high: The i-th largest singular value is at most `high[i]`; `sigma` itself when omitted.
        risk: Chance, over the route's own randomness, that some interval misses.
    """

    sigma: Float64[Tensor, " r"]
    shape: tuple[int, int] = field(metadata={"inline": ("rows", "cols")})
    how: str
    # None stands for sigma and is replaced at once, so that readers always find tensors
    low: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    high: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    risk: float = 0.0

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            if getattr(self, end) is None:
                object.__setattr__(self, end, self.sigma)

    @property
    def complete(self) -> bool:
        """Whether every singular value is present, not only the leading ones."""
        return len(self.sigma) == min(self.shape)

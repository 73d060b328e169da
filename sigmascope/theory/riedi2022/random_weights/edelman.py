"""Edelman's law of the condition number of Gaussian matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.random_matrix import EdelmanCondition
from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import Bound
from sigmascope.theory.riedi2022.intervals import SOURCE

EDELMAN_TERM = 0.7  # times 1/n: the distance to the limit law that was found at n = 5 to 100


@final
@dataclass(frozen=True, slots=True)
class EdelmanLaw(Bound):
    """The condition number of Gaussian matrices grows like their size, with a known law."""

    name: ClassVar[str] = "edelman-law"
    source: ClassVar[str] = (
        f"Edelman 1988, Theorem 6.1, in {SOURCE}, Eq. (154); finite-size term found numerically"
    )
    statement: ClassVar[str] = "sup_t |share(κ/n ≤ t) - exp(-2/t - 2/t²)| ≤ 0.7/n + sampling"

    n: int
    conditions: tuple[float, ...]
    site: str = "Gaussian matrices"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("20 matrices or more", len(self.conditions) >= 20),)

    def always(self) -> tuple[float, float]:
        return 0.0, 1.0

    def measured(self) -> Estimate:
        count, law = len(self.conditions), EdelmanCondition()
        levels = [law.cdf(k / self.n) for k in sorted(self.conditions)]
        gaps = [max((i + 1) / count - F, F - i / count) for i, F in enumerate(levels)]
        return Estimate.rounded(max(gaps), ulps=64)

    def limit(self) -> Estimate:
        risk = 1e-6
        spread = math.sqrt(math.log(2 / risk) / (2 * len(self.conditions)))
        found = EDELMAN_TERM / self.n + spread
        return Estimate(found, found, found, "Dvoretzky-Kiefer-Wolfowitz", risk)

    @classmethod
    def of(cls, matrices: Sequence[Float[Tensor, "n n"]]) -> "EdelmanLaw":
        """Measure square matrices of one size."""
        found = [torch.linalg.svdvals(M.double()) for M in matrices]
        return cls(len(matrices[0]), tuple((s[0] / s[-1]).item() for s in found))

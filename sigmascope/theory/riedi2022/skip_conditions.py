"""The condition number with a skip connection, beside every bound of it."""

import math
from dataclasses import dataclass

from sigmascope.theory.riedi2022.skips import Skip, by_norm, by_symmetric_part


@dataclass(frozen=True, slots=True)
class SkipConditionBounds:
    """Bounds of the condition number of `M + ρ Id`, and the number itself.

    Each is infinite where its condition fails.

    Attributes:
        kappa: `s₁(ρ) / sₙ(ρ)`; infinite where rounding cannot tell `sₙ(ρ)` from 0.
        by_norm: (76), needs `s₁ < ρ`.
        by_norm_alone: (76), its second, coarser form.
        by_symmetric_part: (77), needs `ρ² + ρ τ₋ + sₙ² > 0` alone.
        by_symmetric_part_alone: (77), its coarser form, needs `τ₋ > -ρ`.
    """

    kappa: float
    by_norm: float
    by_norm_alone: float
    by_symmetric_part: float
    by_symmetric_part_alone: float


def skip_condition_bounds(skip: Skip) -> SkipConditionBounds:
    """All bounds of Theorem 22, of `M / ρ + Id`, which has the condition number of `M + ρ Id`.

    Raises:
        ValueError: If the strength is not above 0.

    Source:
        Riedi et al. 2022, Theorem 22 (76), (77).
    """
    rho = skip.rho
    if rho <= 0:
        raise ValueError(f"`rho` must be above 0 for Theorem 22, got {rho:g}. Flip the sign of M.")
    top, last = skip.before.sigma[0].item(), skip.after.sigma[-1].item()
    return SkipConditionBounds(
        kappa=skip.after.sigma[0].item() / last if last > skip.gap else math.inf,
        by_norm=by_norm(skip).value,
        by_norm_alone=(rho + top) / (rho - top) if top < rho else math.inf,
        by_symmetric_part=by_symmetric_part(skip).value,
        by_symmetric_part_alone=(
            (rho + top) / math.sqrt(skip.least) if skip.least > 0 else math.inf
        ),
    )

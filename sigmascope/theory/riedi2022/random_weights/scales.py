"""How large the Gaussian weights of a residual layer are, may be, and by which laws.

`W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111).
"""

import math
from dataclasses import dataclass
from typing import Literal

from sigmascope.linalg.random_matrix import singular_edge, symmetric_edge

Piecewise = Literal["linear", "abs", "relu", "leaky"]


def weight_spread(n: int, r: float) -> float:
    """The standard deviation `1 / (r √(8n))` of the weights.

    Source:
        Riedi et al. 2022, Eq. (111).
    """
    return 1 / (r * math.sqrt(8 * n))


def condition_limits(r: float) -> tuple[float, float]:
    """What bounds (116) and (114) of `κ(W + Id)` tend to as the width grows.

    Args:
        r: Above 1.

    Returns:
        (121) and (122). The limit of `κ(W + Id)` itself is the ratio of
        `linalg.random_matrix.shifted_limits(1 / (r √8))`.

    Source:
        Riedi et al. 2022, Theorem 38.

    Example:
        >>> [round(x, 4) for x in condition_limits(2)]
        [1.8028, 1.9719]
    """
    if not r > 1:
        raise ValueError(f"`r` must be above 1, got {r}. It is the inverse scale of the weights.")
    top = r * r + r + 0.5
    return math.sqrt(top / (r * r - r)), math.sqrt(top) / (r - 1 / math.sqrt(2))


def chance_of_norm(n: int, r: float, *, norm: float = 1.0) -> float:
    """The chance that `s₁(W)` exceeds `norm`, by the Tracy-Widom law at this size.

    Source:
        Riedi et al. 2022, Lemma 36 (113).
    """
    return singular_edge(n).tail((norm / weight_spread(n, r)) ** 2)


def chance_of_negative(n: int, r: float) -> float:
    """The chance that the smallest eigenvalue of `Wᵀ + W` is -1 or less, by the same law.

    Source:
        Riedi et al. 2022, Lemma 36, with the scale of `linalg.random_matrix.symmetric_edge`.
    """
    return symmetric_edge(n).tail(1 / weight_spread(n, r))


@dataclass(frozen=True, slots=True)
class WeightScale:
    """How large weights may be.

    Attributes:
        std: Standard deviation of independent Gaussian weights.
        entry: Largest size of a weight, whatever its law, for which the condition number is sure.
        norm: Spectral norm of the layer up to which it is sure.
        how: What bounds the norm of Gaussian weights.
    """

    std: float
    entry: float
    norm: float
    how: str


def weight_scale(
    width: int,
    *,
    condition: float,
    activation: Piecewise = "relu",
    slope: float = 0.01,
    probability: float = 0.95,
    law: Literal["concentration", "tracy-widom"] = "concentration",
) -> WeightScale:
    """The weight scale that keeps the condition number of a residual layer below a wanted value.

    `κ((D₁ W + Id) D) ≤ (1 + s₁(W)) / (η (1 - s₁(W)))` for any `D₁` and any `D` that leaves a unit
    on, with `η = 1` but for leaky activations; so the norm of `W` decides.

    Args:
        width: Rows and columns of the layer.
        condition: Wanted bound, above `1/η`.
        activation: Of the trained layer.
        slope: `η` of a leaky one, in (0, 1].
        probability: Chance that Gaussian weights keep to it, in (0, 1).
        law: `"concentration"` is proved at every width; `"tracy-widom"` is sharper, and right up to
            the finite-size error of that law.

    Raises:
        ValueError: If a number is out of range.

    Source:
        After Riedi et al. 2022, Theorems 31 and 39, by interlacing (23); Davidson & Szarek 2001,
        Theorem II.13, for the norm of Gaussian matrices.

    Example:
        >>> round(weight_scale(100, condition=3.0).std, 4)
        0.0223
    """
    least = slope if activation == "leaky" else 1.0
    if width < 2 or not 0 < least <= 1 or not 0 < probability < 1:
        raise ValueError(
            f"`weight_scale` needs width >= 2, 0 < slope <= 1 and 0 < probability < 1, got width "
            f"{width}, slope {slope:g}, probability {probability:g}."
        )
    wanted = condition * least
    if not wanted > 1:
        raise ValueError(
            f"`condition` must be above {1 / least:g} for this activation, got {condition:g}: no "
            "weights, however small, do better. Ask for more, or change the activation."
        )
    norm = (wanted - 1) / (wanted + 1)
    if law == "concentration":
        top = 2 * math.sqrt(width) + math.sqrt(2 * math.log(1 / (1 - probability)))
    else:
        top = math.sqrt(singular_edge(width).quantile(probability))
    return WeightScale(norm / top, norm / width, norm, law)

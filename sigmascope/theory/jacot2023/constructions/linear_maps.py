"""The representation cost of linear maps, and its expansion at large depth."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.spectra import spectrum
from sigmascope.records import Estimate

SOURCE = "Jacot 2023"
EPS = 2.0**-52
ROOM = 8  # roundings of the largest singular value, for each row or column, that count as zero


def positive(A: Float[Tensor, "m n"]) -> Float64[Tensor, " k"]:
    """Singular values that are not rounding, of the precision that the matrix is given in."""
    s = spectrum(A.detach().cpu(), route="exact").sigma
    return s[s > ROOM * max(A.shape) * torch.finfo(A.dtype).eps * s[0]]


def linear_cost(A: Float[Tensor, "m n"], depth: int) -> Estimate:
    """Least `Σ ‖W_l‖_F²` of linear networks `W_L ... W_1 = A`: `L Σ s_i^{2/L}`.

    Args:
        A: The linear map.
        depth: L, from 1.

    Raises:
        ValueError: If the depth is below 1.

    Source:
        Jacot 2023, Sec. 2.1; Dai et al. 2021.

    Example:
        >>> linear_cost(torch.eye(3), 5).value
        15.0
    """
    if depth < 1:
        raise ValueError(f"`depth` must be 1 or more, got {depth}. It is the number of layers.")
    return Estimate.rounded(schatten_cost(positive(A), depth), ulps=64 * depth)


def schatten_cost(s: Float64[Tensor, " k"], depth: int) -> float:
    """`L Σ s^{2/L}`: what a linear map of these singular values costs."""
    return float((depth * s.pow(2 / depth)).sum())


def corrections(A: Float[Tensor, "m n"]) -> tuple[int, float, float]:
    """`R0`, `R1` and `R2` of the cost `L R0 + R1 + R2 / L + O(1 / L²)`.

    The rank, `2 log |A|_+` and `2 Σ log² s`.

    Args:
        A: The linear map; singular values below the rounding of its precision are taken as zero.

    Source:
        Jacot 2023, Sec. 2.1 and Prop. 4.
    """
    logs = positive(A).log()
    return len(logs), float(2 * logs.sum()), float(2 * logs.square().sum())


def balanced_factors(
    A: Float[Tensor, "m n"], depth: int, widths: Sequence[int] | None = None
) -> tuple[Float64[Tensor, "_ _"], ...]:
    """Factors `W_1` to `W_L` of least norm whose product is A.

    `W_l = U_l S^{1/L} U_{l-1}ᵀ` with semi-orthonormal `U_l`, so that `W_l W_lᵀ = W_{l+1}ᵀ W_{l+1}`.

    Args:
        A: The linear map.
        depth: L.
        widths: Of the hidden layers, `L - 1` numbers of at least the rank; the rank if not given.

    Raises:
        ValueError: If there are too few widths, or one is below the rank.

    Source:
        Jacot 2023, Sec. 2.1.
    """
    U, s, Vh = torch.linalg.svd(A.detach().double().cpu(), full_matrices=False)
    rank = len(positive(A))
    hidden = [rank] * (depth - 1) if widths is None else list(widths)
    if len(hidden) != depth - 1 or any(w < rank for w in hidden):
        raise ValueError(
            f"`widths` must be {depth - 1} numbers of at least the rank {rank}, got {hidden}. They "
            "are the widths of the hidden layers."
        )
    root = s[:rank].pow(1 / depth)
    frames = [Vh[:rank].mT, *(torch.eye(w, rank, dtype=torch.float64) for w in hidden), U[:, :rank]]
    return tuple((above * root) @ below.mT for below, above in pairwise(frames))

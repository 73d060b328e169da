"""One step of a chain with batch normalisation, what is measured after it, and what it forgets."""

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.spectra import counts_above
from sigmascope.networks.chains.draws import (
    State,
)


def forgetting(width: int, gamma: float, *, spread: float = 1.0) -> int:
    """Layers after which a normalised chain has forgotten its start: `5/gamma² + 4 width + 100`.

    The slowest to go is the first direction that does not survive. It shrinks by about `gamma²/2`
    per layer, and wide chains lose theirs more slowly. A start that is nearly collinear needs
    longer: directions that are small grow by `gamma²/4` per layer or more until all have their
    share.

    Args:
        width: Of the chain.
        gamma: Strength of a layer; infinite without a skip connection.
        spread: Smallest singular value of the start over its largest.
    """
    rate = 1.0 if math.isinf(gamma) else max(gamma * gamma, 1e-300)
    slow = 0 if math.isinf(gamma) else math.ceil(5 / rate)
    return 100 + 4 * width + slow + math.ceil(4 * max(0.0, -math.log10(spread) - 2) / rate)


def require_threshold(tau: float) -> None:
    """Raise unless the threshold of the soft rank is a share."""
    if not 0 < tau <= 1:
        raise ValueError(
            f"`tau` must be above 0 and at most 1, got {tau}. It is a share of the mean "
            "eigenvalue, which normalisation makes 1."
        )


def reduced(H: Float64[Tensor, "chains width samples"], eps: float) -> tuple[State, int, float]:
    """The states in coordinates of their rows' space, so that rounding cannot raise their rank.

    Returns:
        States `R` with `H = R Q`; their least rank; and the least ratio of the smallest singular
        value that is not rounding and the largest.
    """
    U, sigma, _ = torch.linalg.svd(H, full_matrices=False)
    there = sigma > 8 * max(H.shape[1:]) * eps * sigma[:, :1]
    ranks = there.sum(1)
    least = sigma.gather(1, ranks[:, None] - 1) / sigma[:, :1]
    kept = (U * (sigma * there)[:, None])[..., : int(ranks.max())]
    return normalised(kept.contiguous()), int(ranks.min()), float(least.min())


def normalised(H: State) -> State:
    """Every row of unit mean square."""
    return H.div_(torch.linalg.vector_norm(H, dim=-1, keepdim=True))


def measures_of(
    R: Float64[Tensor, "many width directions"], tau: float
) -> Float64[Tensor, "5 many"]:
    """`r`, soft rank, `‖M‖²`, `Tr diag(M²)²` and `Tr M³` of `M = R Rᵀ` with unit diagonal."""
    K = R.mT @ R  # the eigenvalues of M that are not zero
    B = R @ K
    cube = torch.linalg.vector_norm(B, dim=(1, 2)).square_()
    rows = B.mul_(R).sum(-1)  # the diagonal of M²
    regular = torch.linalg.vecdot(rows, rows)
    frobenius_sq = rows.sum(-1)
    ratio = R.shape[1] ** 2 / frobenius_sq
    return torch.stack([ratio, counts_above(K, tau), frobenius_sq, regular, cube])

"""How two subspaces of the same space lie to each other."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import EPS
from sigmascope.linalg.refusals import require_matrix


def principal_angles(X: Float[Tensor, "n p"], Y: Float[Tensor, "n q"]) -> Float64[Tensor, " k"]:
    """Angles between the column spaces of `X` and `Y`.

    Args:
        X: A basis of the first space, of full column rank.
        Y: A basis of the second, over the same rows.

    Returns:
        `min(p, q)` angles in radians, ascending, in `[0, π/2]`, small ones as precise as large.

    Raises:
        TypeError: If a basis is not real floating point.
        ValueError: If a basis is not a finite matrix of full column rank, or the rows differ.

    Source:
        Björck & Golub 1973 for the cosines, Knyazev & Argentati 2002 for the sines.

    Example:
        >>> E = torch.eye(3)
        >>> principal_angles(E[:, :1], E[:, 1:]).round(decimals=6)
        tensor([1.5708], dtype=torch.float64)
    """
    P, Q = _orthonormal(X, name="X"), _orthonormal(Y, name="Y")
    if len(P) != len(Q):
        raise ValueError(
            f"`X` and `Y` must lie in one space, got {len(P)} and {len(Q)} rows. "
            "Transpose them if their rows are the basis vectors."
        )
    P, Q = (P, Q) if P.shape[1] >= Q.shape[1] else (Q, P)
    cos = torch.linalg.svdvals(P.mT @ Q).clamp(max=1)
    sin = torch.linalg.svdvals(Q - P @ (P.mT @ Q)).clamp(max=1).flip(0)
    return torch.where(cos > 0.7, sin.asin(), cos.acos()).cpu()  # each where it keeps its digits


def _orthonormal(X: Float[Tensor, "n p"], *, name: str) -> Float64[Tensor, "n p"]:
    """An orthonormal basis of the column space of `X`, whose columns may differ in length."""
    require_matrix(X, name=name)
    columns = X.detach().double()
    longest = columns.abs().amax(0)
    columns = columns / torch.where(longest > 0, longest, 1)
    sigma = torch.linalg.svdvals(columns)
    if X.shape[1] > len(X) or sigma[-1] <= max(X.shape) * EPS * sigma[0]:
        raise ValueError(
            f"`{name}` must be of full column rank, got shape {tuple(X.shape)} with smallest "
            f"singular value {sigma[-1].item():g}. Pass a basis: drop dependent columns."
        )
    return torch.linalg.qr(columns)[0]

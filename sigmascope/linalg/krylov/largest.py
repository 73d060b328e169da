"""The largest singular value alone, at the price of a few products with single vectors.

The idea: three terms of Lanczos, nothing orthogonalised again. What orthogonality is lost shows as
copies of values that were found already and never as one above them, so that the largest Ritz value
stays a lower bound up to rounding, without a basis that is kept or a block that is multiplied.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.krylov.maps import WORKING, tamed, times
from sigmascope.linalg.refusals import require_steps

EDGE = 4.5  # the zero that the largest Ritz value of an edge as soft as `(1 - x)^(3/2)` follows


def largest(
    A: Float[Tensor, "m n"], *, steps: int, generator: torch.Generator | None = None
) -> float:
    """The largest singular value, from below: what so many steps of Lanczos find of it.

    Args:
        A: A finite matrix; multiplied in float64 if it is in that, in float32 otherwise.
        steps: Products with `A`, and as many with its transpose.
        generator: Source of the start.

    Raises:
        ValueError: If `steps` is below 1.

    Source:
        Lanczos 1950; Paige 1980 for what is lost without orthogonalising again.

    Cost: `2 steps` products with a vector; see `short_of` for how far below it may lie.

    Example:
        >>> round(largest(torch.diag(torch.tensor([4.0, 3.0, 1.0])), steps=3), 4)
        4.0
    """
    require_steps(steps)
    W, power = tamed(A.detach().to(WORKING.get(A.dtype, torch.float32)))
    W = W if W.shape[0] >= W.shape[1] else W.mT
    source = W.device if generator is None else generator.device
    v = torch.randn(W.shape[1], generator=generator, dtype=torch.float64, device=source).to(W)
    v, before = v / torch.linalg.vector_norm(v), torch.zeros_like(v)
    within, beyond = [], [torch.zeros((), dtype=v.dtype, device=v.device)]
    for _ in range(min(steps, W.shape[1])):
        w = W.mT @ (W @ v)
        within.append(v @ w)
        w = w.sub_(within[-1] * v).sub_(beyond[-1] * before)
        beyond.append(torch.linalg.vector_norm(w))
        before, v = v, w / beyond[-1].clamp_min(torch.finfo(v.dtype).tiny)
    diagonal, beside = (torch.stack(x).double().cpu() for x in (within, beyond[1:]))
    T = diagonal.diag() + beside[:-1].diag(1) + beside[:-1].diag(-1)
    top = torch.linalg.eigvalsh(T)[-1].clamp_min(0).sqrt()
    return float(times(top, power))


def short_of(steps: int) -> float:
    """By what factor the largest value of noise may exceed what `largest` finds of it.

    The squares are taken to be dense down to zero and to end as softly as `(1 - x)^(3/2)`; those of
    independent entries end as `(1 - x)^(1/2)`, of which `π` in the place of 4.5 would do.

    Args:
        steps: Products with the matrix.

    Source:
        Szegő 1939, Theorem 8.1.2: the outermost zero of Jacobi's polynomials.
    """
    return 1 / math.cos(min(EDGE / (2 * steps + 1), 1.0))

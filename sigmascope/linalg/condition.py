"""How far apart the non-zero singular values are, and how much volume they span."""

import torch

from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.ranks import rank_range
from sigmascope.linalg.refusals import require_complete, require_nonzero
from sigmascope.linalg.stacks import log_volumes


def condition_number(s: Spectrum, *, rtol: float | None = None) -> Estimate:
    """Largest over smallest non-zero singular value, those above the rank threshold.

    Args:
        s: All singular values of a non-zero matrix.
        rtol: Threshold relative to the largest, as in `matrix_rank`.

    Returns:
        Dimensionless, at least 1. Where it is undecided whether a value exceeds the threshold, the
        interval covers both. `how` says how many values were dropped.

    Raises:
        Refusal: If the spectrum is partial, the matrix zero, or `rtol` out of range.

    Source:
        Golub & Van Loan 2013, section 5.3.4, with the rank of Daneshmand et al. 2020, footnote 2.

    Example:
        >>> s = Spectrum(torch.tensor([4.0, 2.0, 0.0], dtype=torch.float64), (3, 3), "exact")
        >>> condition_number(s).value, condition_number(s).how
        (2.0, 'exact, 1 of 3 dropped')
    """
    least, rank, most = _ranks(s, rtol, asked="condition_number")
    low = (s.low[0] / s.high[least - 1]).item() * (1 - EPS)
    high = (s.high[0] / s.low[most - 1]).item() * (1 + EPS)  # inf where the last may be zero
    value = (s.sigma[0] / s.sigma[rank - 1]).item()
    return Estimate(value, max(min(low, value), 1.0), max(high, value), _how(s, rank), s.risk)


def log_pseudo_determinant(s: Spectrum, *, rtol: float | None = None) -> Estimate:
    """Sum of the natural logarithms of the singular values above the rank threshold.

    Args:
        s: All singular values of a non-zero matrix.
        rtol: Threshold relative to the largest, as in `matrix_rank`.

    Returns:
        In nats; scaling a matrix of rank k by c adds `k ln c`. Where it is undecided whether a
        value exceeds the threshold, the interval covers both. `how` says how many were dropped.

    Raises:
        Refusal: If the spectrum is partial, the matrix zero, or `rtol` out of range.

    Source:
        Minka 2000 for the pseudo-determinant; rank of Daneshmand et al. 2020, footnote 2.

    Example:
        >>> s = Spectrum(torch.tensor([2.0, 2.0, 0.0], dtype=torch.float64), (3, 3), "exact")
        >>> round(log_pseudo_determinant(s).value, 6)
        1.386294
    """
    least, rank, most = _ranks(s, rtol, asked="log_pseudo_determinant")
    ranks = torch.tensor(least), torch.tensor(rank), torch.tensor(most)
    low, value, high = log_volumes((s.low, s.sigma, s.high), ranks)
    return Estimate(value.item(), low.item(), high.item(), _how(s, rank), s.risk)


def _ranks(s: Spectrum, rtol: float | None, *, asked: str) -> tuple[int, int, int]:
    require_complete(s, asked=asked)
    require_nonzero(s.sigma[0].item(), s.shape, asked=asked)
    return rank_range(s, rtol)


def _how(s: Spectrum, rank: int) -> str:
    dropped = len(s.sigma) - rank
    return f"{s.how}, {dropped} of {len(s.sigma)} dropped" if dropped else s.how

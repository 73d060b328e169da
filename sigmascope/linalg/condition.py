"""How far apart the non-zero singular values are, and how much volume they span."""

from sigmascope.linalg.dense import EPS
from sigmascope.linalg.ranks import rank_range
from sigmascope.linalg.refusals import require_complete, require_nonzero
from sigmascope.records import Estimate, Spectrum


def condition_number(s: Spectrum, *, rtol: float | None = None) -> Estimate:
    """Largest over smallest non-zero singular value, those above the rank threshold.

    Args:
        s: All singular values of a non-zero matrix.
        rtol: Threshold relative to the largest, as in `matrix_rank`.

    Returns:
        Dimensionless, at least 1. Where it is undecided whether a value exceeds the threshold, the
        interval covers both. `how` says how many values were dropped.

    Raises:
        ValueError: If the spectrum is partial, the matrix zero, or `rtol` out of range.

    Source:
        Golub & Van Loan 2013, section 5.3.4, with the rank of Daneshmand et al. 2020, footnote 2.

    Example:
        >>> import torch
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
        ValueError: If the spectrum is partial, the matrix zero, or `rtol` out of range.

    Source:
        Minka 2000 for the pseudo-determinant; rank of Daneshmand et al. 2020, footnote 2.

    Example:
        >>> import torch
        >>> s = Spectrum(torch.tensor([2.0, 2.0, 0.0], dtype=torch.float64), (3, 3), "exact")
        >>> round(log_pseudo_determinant(s).value, 6)
        1.386294
    """
    least, rank, most = _ranks(s, rtol, asked="log_pseudo_determinant")
    logs = s.sigma.log()
    size = logs[:rank].abs().sum().item()
    rounding = 4 * (rank + 1) * EPS * max(size, 1.0)
    value = logs[:rank].sum().item()
    low = s.low.log().cumsum(0)[least - 1 : most].min().item()
    high = s.high.log().cumsum(0)[least - 1 : most].max().item()
    return Estimate(
        value,
        min(low, value) - rounding,
        max(high, value) + rounding,
        _how(s, rank),
        s.risk,
    )


def _ranks(s: Spectrum, rtol: float | None, *, asked: str) -> tuple[int, int, int]:
    require_complete(s, asked=asked)
    require_nonzero(s.sigma[0].item(), s.shape, asked=asked)
    return rank_range(s, rtol)


def _how(s: Spectrum, rank: int) -> str:
    dropped = len(s.sigma) - rank
    return f"{s.how}, {dropped} of {len(s.sigma)} dropped" if dropped else s.how

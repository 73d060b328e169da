"""How many dimensions a spectrum has, by counts and softly; its condition number and volume."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.norms import frobenius_norm, spectral_norm
from sigmascope.linalg.refusals import (
    require_between,
    require_complete,
    require_nonzero,
    require_positive,
)

# ------------------------------------------------------------------------------
# Ranks and volumes of many matrices of one shape, whose singular values are rows of one tensor.
#
# Singular values lie along the last dimension, descending; what is returned has the others.


WALK = 4e-7  # by the root of the rows: what errors of single precision add up to, as they walk
Ends = tuple[Tensor, Tensor, Tensor]


def rank_tolerance(shape: tuple[int, int]) -> float:
    """Below this share of the largest singular value, one counts as zero where none is given.

    Args:
        shape: Of the matrix.

    Source:
        Daneshmand et al. 2020, footnote 2.
    """
    return min(max(shape) * 1e-7, 1 - EPS)  # beyond 1e7 rows the rule would count nothing


def rank_counts(ends: Ends, shape: tuple[int, int], rtol: float | None = None) -> Ends:
    """How many values are surely, apparently and possibly above the rank threshold.

    Args:
        ends: Low ends, values and high ends of the singular values of each.
        shape: Of one matrix.
        rtol: As in `matrix_rank`.
    """
    least = rtol
    if rtol is None or least is None:
        rtol = rank_tolerance(shape)
        least = min(rtol, WALK * math.sqrt(max(shape)))
    require_between(rtol, 0, 1, name="rtol", instead="Omit it for max(shape) * 1e-7.")
    low, sigma, high = relative(*ends)
    counts = low > rtol * high[..., :1], sigma > rtol, high > least * low[..., :1]
    # the largest is above any fraction of itself, however wide its interval
    first = (sigma[..., 0] > 0).long()
    surely, apparently, possibly = (torch.maximum(c.sum(-1), first) for c in counts)
    return surely, apparently, possibly


def log_volumes(ends: Ends, ranks: Ends) -> Ends:
    """Low ends, values and high ends of the logarithms of pseudo-determinants.

    Args:
        ends: Low ends, values and high ends of the singular values of each.
        ranks: The least rank, the rank and the largest rank of each, all at least 1.
    """
    low, sigma, high = ends
    least, rank, most = (r[..., None] for r in ranks)
    place = torch.arange(1, sigma.shape[-1] + 1, device=sigma.device)
    logs = torch.where(place <= rank, sigma.log(), 0.0)
    size, value = logs.abs().sum(-1), logs.sum(-1)
    rounding = 4 * (ranks[1] + 1) * EPS * size.clamp(min=1.0)
    possible = (place >= least) & (place <= most)
    lowest = torch.where(possible, low.log().cumsum(-1), torch.inf).amin(-1)
    highest = torch.where(possible, high.log().cumsum(-1), -torch.inf).amax(-1)
    return (
        torch.minimum(lowest, value) - rounding,
        value,
        torch.maximum(highest, value) + rounding,
    )


def relative(low: Tensor, sigma: Tensor, high: Tensor) -> Ends:
    """Low ends, values and high ends in units of the largest value of each matrix."""
    top = torch.where(sigma[..., :1] > 0, sigma[..., :1], 1.0)
    return low / top, sigma / top, high / top


def matrix_rank(s: Spectrum, *, rtol: float | None = None) -> Estimate:
    """Number of singular values above `rtol` times the largest; 0 for a zero matrix.

    Args:
        s: All singular values of an `[m, n]` matrix.
        rtol: Relative threshold in `[0, 1)`; `max(m, n) * 1e-7` when omitted.

    Returns:
        A count between 0 and `min(m, n)`, of the matrix as it is given. The low end counts what
        surely exceeds the threshold, the high end what possibly does, by the intervals of the
        singular values. Where `rtol` is omitted the high end counts also what the rule calls zero
        though rounding does not explain it: what possibly exceeds `4e-7 √max(m, n)`, as much as
        errors of single precision add up to that walk at random. The rule grows with `max(m, n)`
        itself, and is a third of the largest value for three million rows; `how` says how many
        values are in between.

    Raises:
        Refusal: If the spectrum is partial, or `rtol` is out of range.

    Source:
        Daneshmand et al. 2020, footnote 2; Higham & Mary 2019 for the walk.

    Example:
        >>> s = Spectrum(torch.tensor([1.0, 1e-3, 1e-9], dtype=torch.float64), (3, 5), "exact")
        >>> matrix_rank(s).value
        2.0
    """
    require_complete(s, asked="matrix_rank")
    low, value, high = rank_range(s, rtol)
    how, between = (
        s.how,
        0 if rtol is not None else high - rank_range(s, rank_tolerance(s.shape))[2],
    )
    if between:
        rule = f"{rank_tolerance(s.shape):.2g} of the largest"
        how = f"{how}, {between} below {rule} that rounding does not explain"
    return Estimate(float(value), float(low), float(high), how, s.risk)


def rank_range(s: Spectrum, rtol: float | None) -> tuple[int, int, int]:
    """How many values are surely, apparently and possibly above the rank threshold."""
    least, value, most = rank_counts((s.low, s.sigma, s.high), s.shape, rtol)
    return int(least), int(value), int(most)


def soft_rank(s: Spectrum, tau: float = 0.5) -> Estimate:
    """Number of eigenvalues of `HᵀH / rows` that are at least `tau`. Not scale invariant.

    A value within its interval of the threshold counts, so that `H` with `HᵀH / rows = I` has full
    soft rank at `tau = 1` in spite of rounding.

    Args:
        s: All singular values of `H`, rows = samples.
        tau: Threshold, positive, in the squared unit of the entries.

    Returns:
        A count between 0 and `min(m, n)`.

    Raises:
        Refusal: If the spectrum is partial, or `tau` is not positive and finite.

    Source:
        Daneshmand et al. 2020, Eq. 3.
    """
    require_complete(s, asked="soft_rank")
    require_positive(tau, name="tau", instead="At 0 every direction counts: use `matrix_rank`.")
    threshold = math.sqrt(tau) * math.sqrt(s.shape[0])  # sigma is never squared
    surely = float((s.low >= threshold * (1 + 2 * EPS)).sum())
    possibly = float((s.high >= threshold * (1 - 2 * EPS)).sum())
    return Estimate(possibly, surely, possibly, s.how, s.risk)


def participation_ratio(s: Spectrum) -> Estimate:
    """`(Σ σ²)² / Σ σ⁴`: how many squared singular values share the energy. Scale invariant.

    Args:
        s: All singular values of a non-zero matrix.

    Returns:
        Dimensionless, between 1 (rank one) and the rank (all non-zero values equal).

    Raises:
        Refusal: If the spectrum is partial, or the matrix is zero.

    Source:
        Daneshmand et al. 2020, Eq. 4, there `r(H)`.

    Example:
        >>> flat = Spectrum(torch.ones(4, dtype=torch.float64), (4, 9), "exact")
        >>> round(participation_ratio(flat).value, 9)
        4.0
    """
    low, sigma, high = _box(s, asked="participation_ratio")
    value = _ratio(sigma, sigma)
    return _clamped(s, value, _ratio(low, high), _ratio(high, low))


def _ratio(above: Tensor, below: Tensor) -> float:
    squares, under = above.square().sum(), below.square().square().sum()
    return (squares.square() / under).item()


def stable_rank(s: Spectrum | Float[Tensor, "m n"]) -> Estimate:
    """`‖A‖_F² / ‖A‖₂²`: the energy in units of that of the leading direction. Scale invariant.

    Args:
        s: All singular values of a non-zero matrix; or the matrix, which need not be factorised:
            its Frobenius norm is summed and its spectral norm takes the route of its size.

    Returns:
        Dimensionless, between 1 and the rank.

    Raises:
        Refusal: If the spectrum is partial, or the matrix is zero.

    Source:
        Rudelson & Vershynin 2007, section 1.
    """
    if isinstance(s, Tensor):
        energy, top = frobenius_norm(s), spectral_norm(s)
        require_nonzero(top.value, (s.shape[0], s.shape[1]), asked="stable_rank")
        inside = lambda ratio: min(max(ratio**2, 1.0), float(min(s.shape)))
        high = inside(energy.high / top.low) if top.low > 0 else float(min(s.shape))
        value, low = inside(energy.value / top.value), inside(energy.low / top.high)
        return Estimate(value, low, high, top.how, top.risk)
    low, sigma, high = _box(s, asked="stable_rank")
    value = sigma.square().sum().item()
    least = 1 + (low[1:] / high[0]).square().sum().item()
    most = 1 + (torch.minimum(high[1:], high[0]) / low[0]).square().sum().item()
    return _clamped(s, value, least, most)


def effective_rank(s: Spectrum) -> Estimate:
    """Exponential of the entropy of the normalised singular values. Scale invariant.

    `exp(-Σ pᵢ ln pᵢ)` with `pᵢ = σᵢ / Σⱼ σⱼ` and `0 ln 0 = 0`, so nothing is added to a value.

    Args:
        s: All singular values of a non-zero matrix.

    Returns:
        Dimensionless, between 1 (rank one) and `min(m, n)` (flat spectrum).

    Raises:
        Refusal: If the spectrum is partial, or the matrix is zero.

    Source:
        Roy & Vetterli 2007, Definition 1; interval by Audenaert 2007, Theorem 1.

    Example:
        >>> flat = Spectrum(torch.ones(4, dtype=torch.float64), (4, 9), "exact")
        >>> round(effective_rank(flat).value, 9)
        4.0
    """
    low, sigma, high = _box(s, asked="effective_rank")
    total = sigma.sum()
    entropy = torch.special.entr(sigma / total).sum().item()
    # moving every value inside its interval moves p by at most this in total variation
    moved = (torch.maximum(high - sigma, sigma - low).sum() / total).item()
    moved, size = moved + len(sigma) * EPS, len(sigma)
    # how far the entropies of two laws on so many points, so far apart, can be (nats)
    if size == 1:
        gap = 0.0
    elif moved >= 1 - 1 / size:
        gap = math.log(size)
    else:
        own = -moved * math.log(moved) - (1 - moved) * math.log1p(-moved)
        gap = moved * math.log(size - 1) + own
    return _clamped(s, math.exp(entropy), math.exp(entropy - gap), math.exp(entropy + gap))


def spectral_entropy(s: Spectrum) -> Estimate:
    """Entropy of the normalised singular values, over that of as many equal ones. Scale invariant.

    Args:
        s: All singular values of a non-zero matrix with a smaller side of at least 2.

    Returns:
        Dimensionless, between 0 (rank one) and 1 (flat spectrum).

    Raises:
        Refusal: If the spectrum is partial, the matrix is zero, or it has one singular value.

    Source:
        Roy & Vetterli 2007, Definition 1, over the largest value that it can have.

    Example:
        >>> flat = Spectrum(torch.ones(4, dtype=torch.float64), (4, 9), "exact")
        >>> round(spectral_entropy(flat).value, 9)
        1.0
    """
    if min(s.shape) < 2:
        raise Refusal(
            f"`spectral_entropy` needs two singular values or more, got shape {tuple(s.shape)}. "
            "One value has no distribution: leave it out."
        )
    return (effective_rank(s).log() / math.log(min(s.shape))).at_least(0.0).at_most(1.0)


def energy_rank(s: Spectrum, share: float = 0.99) -> Estimate:
    """Fewest leading singular values whose squares hold their share of the sum. Scale invariant.

    Args:
        s: All singular values of a non-zero matrix.
        share: Of the squared norm, in (0, 1).

    Returns:
        A count between 1 and `min(m, n)`.

    Raises:
        Refusal: If the spectrum is partial, the matrix is zero, or `share` out of range.

    Source:
        Eckart & Young 1936: a factorisation of this rank leaves out the rest.

    Example:
        >>> s = Spectrum(torch.tensor([10.0, 1.0, 0.1], dtype=torch.float64), (3, 3), "exact")
        >>> energy_rank(s).value
        1.0
    """
    require_complete(s, asked="energy_rank")
    require_nonzero(s.sigma[0].item(), s.shape, asked="energy_rank")
    if not 0 < share < 1:
        raise Refusal(
            f"`share` must be between 0 and 1, both excluded, got {share:g}. For all of the energy "
            "use `matrix_rank`."
        )
    ends = []
    for above, below in ((s.high, s.low), (s.sigma, s.sigma), (s.low, s.high)):
        # at least so many: the leading ones large, what follows small; and the other way round
        rest = below.square().flip(0).cumsum(0).flip(0)
        held = above.square().cumsum(0)
        left = torch.cat([rest[1:], rest.new_zeros(1)])
        enough = held >= share / (1 - share) * left
        ends.append(float(int(enough.double().argmax()) + 1))
    low, value, high = ends
    return Estimate(value, min(low, value), max(high, value), s.how, s.risk)


def scaled(s: Spectrum) -> Ends:
    """Low ends, values and high ends in units of the largest value, so that squares are safe."""
    return relative(s.low, s.sigma, s.high)


def _box(s: Spectrum, *, asked: str) -> Ends:
    require_complete(s, asked=asked)
    require_nonzero(s.sigma[0].item(), s.shape, asked=asked)
    return scaled(s)


def _clamped(s: Spectrum, value: float, low: float, high: float) -> Estimate:
    """An estimate widened by the rounding of its own sums, inside `[1, min(shape)]`."""
    rounding = 4 * len(s.sigma) * EPS
    least, most = 1.0, float(min(s.shape))
    return Estimate(
        min(max(value, least), most),
        min(max(low * (1 - rounding), least), most),
        max(min(high * (1 + rounding), most), least),
        s.how,
        s.risk,
    )


# ------------------------------------------------------------------------------
# How far apart the non-zero singular values are, and how much volume they span.


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

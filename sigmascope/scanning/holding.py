"""Two matrices held against one another: where layers meet, of copies, of two versions."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg.krylov import leading, tamed, times
from sigmascope.linalg.random_matrix import RandomSigns, noise
from sigmascope.linalg.spectra import principal_angles
from sigmascope.records import Estimate, Item, Reading, Skipped
from sigmascope.scanning.ends import Ends, off
from sigmascope.scanning.entries import EPS, PANEL, entries
from sigmascope.scanning.tasks import Pair
from sigmascope.scanning.units import in_unit

COMPARED = 10  # leading directions of two versions
INTRUDER = 0.6  # cosine below which a direction is none of the first version's
WHOLE_SIDE = 1024  # up to which all directions of the first version are known
COPY = 0.99  # cosine from which on two matrices are told as copies


def meet(pair: Pair, one: Ends, other: Ends) -> Iterator[Item]:
    """Of two layers, the second of which reads what the first writes.

    Args:
        pair: What is wanted.
        one: The ends of the first.
        other: Those of the second.
    """
    if one.zero or other.zero:
        yield Skipped(pair.site, q.ALIGNMENT, "one of them is exactly zero, or not finite")
        return
    top = max(one.power, other.power)
    made, read = times(one.rows, 2 * (one.power - top)), times(other.cols, 2 * (other.power - top))
    total = float(made.sum() + read.sum())
    apart = float((made - read).abs().sum()) / total
    gap = (len(made) + len(one.reads) + len(other.writes) + 8) * EPS  # of each sum, of the total
    imbalance = Estimate.within(apart, 2 * gap).at_least(0.0).at_most(1.0)
    alignment = _squared_cosine((one.writes, one.off), (other.reads, other.off))
    for name, found in ((q.UNIT_IMBALANCE, imbalance), (q.ALIGNMENT, alignment)):
        if name in pair.wanted:
            yield _read(pair, name, found)


def hold(pair: Pair, A: Float[Tensor, "_ _"], B: Float[Tensor, "_ _"]) -> Iterator[Item]:
    """What is wanted of two matrices that may be copies, or are two versions of one.

    Args:
        pair: What they are to each other.
        A: The first.
        B: The second.
    """
    if not (bool(A.isfinite().all()) and bool(B.isfinite().all())):
        yield Skipped(pair.site, "both together", "one of them has entries that are not finite")
        return
    power = max((tamed(M)[1] for M in _wide(A, B) if M.any()), default=0)
    A, B = (times(M, -power) for M in _wide(A, B)) if power else (A, B)
    for item in _copies(pair, A, B) if pair.kind == "copy" else _change(pair, A, B):
        if not isinstance(item, Reading) or item.quantity in pair.wanted:
            yield in_unit(item, power)


def _squared_cosine(one: tuple[Tensor, float], other: tuple[Tensor, float]) -> Estimate:
    cosine = min(abs(float(one[0] @ other[0])), 1.0)
    angle, off = math.acos(cosine), math.asin(one[1]) + math.asin(other[1])
    least, most = max(angle - off, 0.0), min(angle + off, math.pi / 2)
    ends = sorted((math.cos(most) ** 2, cosine**2, math.cos(least) ** 2))
    return Estimate(ends[1], ends[0], ends[2], "leading vectors by block krylov").at_most(1.0)


def _copies(pair: Pair, A: Tensor, B: Tensor) -> Iterator[Item]:
    """As they lie, else with the second turned; of opposites the cosine is negative."""
    turned = [("", B)] if A.shape == B.shape else []
    turned += [("turned", B.mT)] if A.shape == B.mT.shape else []
    for form, other in turned:
        estimate = _cosine(A, other)
        if abs(estimate.value) >= COPY:
            yield _read(pair, q.COPY_COSINE, estimate, form)
            return


def _cosine(A: Tensor, B: Tensor) -> Estimate:
    inner, first, second, apart = _products(A, B)
    if inner < 0:
        return -_cosine(A, -B)
    cosine = inner / (math.sqrt(first) * math.sqrt(second)) if first and second else 0.0
    estimate = Estimate.rounded(min(cosine, 1.0), ulps=A.numel() + 16.0).at_most(1.0)
    # a multiple has a cosine of 1 up to rounding: of equal entries alone it is 1
    return estimate if apart or not first else Estimate.exactly(1.0)


def _products(A: Tensor, B: Tensor) -> tuple[float, ...]:
    """`⟨A, B⟩`, `‖A‖²`, `‖B‖²` and `‖B - A‖²` in float64, by panels."""
    found = torch.zeros(4, dtype=torch.float64)
    for one, other in _panels(A, B):
        found += torch.stack([one @ other, one @ one, other @ other, (other - one).square().sum()])
    return tuple(found.tolist())


def _panels(A: Tensor, B: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    rows = max(1, PANEL // A.shape[1])
    for P, Q in zip(A.split(rows), B.split(rows), strict=True):
        yield P.double().flatten(), Q.double().flatten()


def _wide(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both in single precision at least."""
    wide = torch.float64 if torch.float64 in (A.dtype, B.dtype) else torch.float32
    return A.to(wide), B.to(wide)


def _change(pair: Pair, A: Tensor, B: Tensor) -> Iterator[Item]:
    """Of two versions of one matrix: how far it moved, and in which directions."""
    inner, first, second, apart = _products(A, B)
    if first == 0:
        yield Skipped(pair.site, "all else", "the first version is exactly zero")
        return
    rounding = A.numel() + 8.0
    size, moved = (Estimate.rounded(x, ulps=rounding).sqrt() for x in (first, apart))
    yield _read(pair, q.RELATIVE_CHANGE, (moved / size).at_least(0.0))
    off = rounding * EPS * math.sqrt(second / first)  # of the scale, whatever cancels in it
    scale = inner / first
    yield _read(pair, q.BEST_SCALE, Estimate.within(scale, off + abs(scale) * rounding * EPS))
    if apart == 0:
        for name in (q.TURNED_CHANGE, q.CHANGE_NORM):
            yield _read(pair, name, Estimate.exactly(0.0))
        names = "change stable rank, change spikes, largest angle, intruders"
        yield Skipped(pair.site, names, "nothing has changed")
        return
    turned = math.sqrt(_turned(A, B, scale) / first)
    gap = 2 * off + turned * rounding * EPS
    yield _read(pair, q.TURNED_CHANGE, Estimate.within(turned, gap).at_least(0.0))
    generator = torch.Generator().manual_seed(pair.tasks[0].seed)
    yield from _of_difference(pair, _difference(A, B), moved**2, generator)
    yield from _directions(pair, A, B, generator)


def _difference(A: Tensor, B: Tensor) -> Tensor:
    """`B - A` in single precision at least, rounded once."""
    A, B = _wide(A, B)
    return B - A


def _turned(A: Tensor, B: Tensor, scale: float) -> float:
    return sum(float((other - scale * one).square().sum()) for one, other in _panels(A, B))


def _of_difference(
    pair: Pair, D: Tensor, energy: Estimate, generator: torch.Generator
) -> Iterator[Item]:
    """Norm, rank and spikes of the difference, whose energy is known before it is rounded."""
    seen = entries(D, "")
    s = leading(D, energy=seen.energy.high, vectors=0, generator=generator).spectrum
    top = Estimate(float(s.sigma[0]), float(s.low[0]), float(s.high[0]), s.how, s.risk)
    yield _read(pair, q.CHANGE_NORM, top)
    ratio = (energy / top**2).at_least(1.0).at_most(float(min(s.shape)))
    yield _read(pair, q.CHANGE_STABLE_RANK, ratio)
    if min(s.shape) < 8:
        yield Skipped(pair.site, q.CHANGE_SPIKES, f"{min(s.shape)} singular values have no bulk")
        return
    longest = (math.sqrt(float(seen.rows.max())), math.sqrt(float(seen.cols.max())))
    signs = RandomSigns(D, rms=seen.rms, longest=longest, largest=seen.largest, generator=generator)
    yield _read(pair, q.CHANGE_SPIKES, noise(s, energy=seen.energy, signs=signs).spikes)


def _directions(pair: Pair, A: Tensor, B: Tensor, generator: torch.Generator) -> Iterator[Item]:
    """Angles between the leading directions, and those of the second that are none of the first."""
    k = min(COMPARED, min(A.shape) // 2)
    if k < 1:
        why = "of a single direction nothing can be compared"
        yield Skipped(pair.site, "largest angle, intruders", why)
        return
    one, other = (leading(M, count=k + 1, generator=generator) for M in (A, B))
    angle = max(
        float(principal_angles(first[:, :k], second[:, :k])[-1])
        for first, second in ((one.left, other.left), (one.right, other.right))
    )
    turned = math.asin(off(one, A, k)) + math.asin(off(other, B, k))
    ends = max(min(angle, math.pi / 2) - turned, 0.0), min(angle + turned, math.pi / 2)
    how = f"{k} leading directions by block krylov"
    risk = one.spectrum.risk + other.spectrum.risk
    form = f"{k} directions"
    yield _read(pair, q.LARGEST_ANGLE, Estimate(min(angle, ends[1]), *ends, how, risk), form)
    yield _read(pair, q.INTRUDERS, _intruders(A, other.left[:, :k].double(), generator), form)


def _intruders(A: Tensor, Y: Float[Tensor, "m k"], generator: torch.Generator) -> Estimate:
    """Columns of `Y` whose cosine with each left singular vector of `A` is below the threshold."""
    m, n = A.shape
    if min(m, n) <= WHOLE_SIDE:
        U, sigma, _ = torch.linalg.svd(A.double(), full_matrices=False)
        U = U[:, sigma > max(m, n) * EPS * sigma[0]]  # the others may point anywhere
        known, how = U.mT @ Y, "all directions of the first"
        outside = torch.zeros(Y.shape[1], dtype=torch.float64)
    else:
        U = leading(A, generator=generator).left.double()
        known, how = U.mT @ Y, f"{U.shape[1]} leading directions of the first"
        outside = (1 - known.square().sum(0)).clamp_min(0).sqrt()
    far = known.abs().amax(0) < INTRUDER
    surely = far & (outside < INTRUDER)
    value, low = float(far.sum()), float(surely.sum())
    return Estimate(value, low, value, how)


def _read(pair: Pair, name: str, estimate: Estimate, form: str = "") -> Reading:
    return Reading(pair.site, name, estimate, q.SCAN, form)

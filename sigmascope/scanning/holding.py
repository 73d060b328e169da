"""Two matrices held against one another: where layers meet, of copies, of two versions."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.krylov import Leading, leading
from sigmascope.linalg.random_matrix import RandomSigns, noise
from sigmascope.linalg.spectra import principal_angles
from sigmascope.quantities import SCAN
from sigmascope.records import Estimate, Item, Reading, Skipped
from sigmascope.scanning.entries import PANEL, Entries, entries
from sigmascope.scanning.tasks import Pair

COMPARED = 10  # leading directions of two versions
INTRUDER = 0.6  # cosine below which a direction is none of the first version's
WHOLE_SIDE = 1024  # up to which all directions of the first version are known
COPY = 0.99  # cosine from which on two matrices are told as copies


def hold(pair: Pair, A: Float[Tensor, "_ _"], B: Float[Tensor, "_ _"]) -> Iterator[Item]:
    """What is wanted of two matrices.

    Args:
        pair: What they are to each other.
        A: The first.
        B: The second.
    """
    if not (bool(A.isfinite().all()) and bool(B.isfinite().all())):
        yield Skipped(pair.site, "both together", "one of them has entries that are not finite")
        return
    of = {"meet": _meeting, "copy": _copies, "change": _change}[pair.kind]
    for item in of(pair, A, B):
        if isinstance(item, Skipped) or item.quantity in pair.wanted:
            yield item


def _meeting(pair: Pair, A: Tensor, B: Tensor) -> Iterator[Item]:
    """Of layers, the second of which reads what the first writes."""
    generator = torch.Generator().manual_seed(pair.seed)
    ins, outs = entries(A, "").rows, entries(B, "").cols
    total = float(ins.sum() + outs.sum())
    if total == 0 or not (float(ins.sum()) and float(outs.sum())):
        yield Skipped(pair.site, "alignment", "one of them is exactly zero")
        return
    apart = Estimate.rounded(float((ins - outs).abs().sum()) / total, ulps=len(ins) + 64.0)
    yield _read(pair, "unit imbalance", apart.at_least(0.0).at_most(1.0))
    writes = _direction(leading(A, count=2, generator=generator), A, side="left")
    reads = _direction(leading(B, count=2, generator=generator), B, side="right")
    yield _read(pair, "alignment", _squared_cosine(writes, reads))


def _direction(found: Leading, A: Tensor, *, side: str) -> tuple[Tensor, float]:
    """The leading singular vector of one side, and the sine of how far it may be off."""
    vector = found.left if side == "left" else found.right
    return vector[:, 0].double(), _off(found, A, 1)


def _off(found: Leading, A: Tensor, k: int) -> float:
    """Sine of the angle by which the span of k leading vectors may be off (Wedin 1972)."""
    u, v, sigma = found.left[:, :k].double(), found.right[:, :k].double(), found.spectrum.sigma
    W = A.to(found.left.dtype)
    to = lambda M, x: (M @ x.to(M.dtype)).double()
    sides = to(W, v) - u * sigma[:k], to(W.mT, u) - v * sigma[:k]
    residual = math.hypot(*(float(torch.linalg.matrix_norm(side, 2)) for side in sides))
    gap = float(sigma[k - 1]) - (float(sigma[k]) if len(sigma) > k else 0.0) - residual
    return min(1.0, residual / gap) if gap > 0 else 1.0


def _squared_cosine(one: tuple[Tensor, float], other: tuple[Tensor, float]) -> Estimate:
    cosine = min(abs(float(one[0] @ other[0])), 1.0)
    angle, off = math.acos(cosine), math.asin(one[1]) + math.asin(other[1])
    least, most = max(angle - off, 0.0), min(angle + off, math.pi / 2)
    ends = sorted((math.cos(most) ** 2, cosine**2, math.cos(least) ** 2))
    return Estimate(ends[1], ends[0], ends[2], "leading vectors by block krylov").at_most(1.0)


def _copies(pair: Pair, A: Tensor, B: Tensor) -> Iterator[Item]:
    inner, first, second = _products(A, B)
    cosine = inner / math.sqrt(first * second) if first and second else 0.0
    if cosine >= COPY:
        estimate = Estimate.rounded(min(cosine, 1.0), ulps=A.numel() ** 0.5 + 16)
        yield _read(pair, "copy cosine", estimate.at_most(1.0))


def _products(A: Tensor, B: Tensor) -> tuple[float, float, float]:
    """`⟨A, B⟩`, `‖A‖²` and `‖B‖²` in float64, by panels."""
    found = torch.zeros(3, dtype=torch.float64)
    rows = max(1, PANEL // A.shape[1])
    for P, Q in zip(A.split(rows), B.split(rows), strict=True):
        p, q = P.double().flatten(), Q.double().flatten()
        found += torch.stack([p @ q, p @ p, q @ q])
    inner, first, second = found.tolist()
    return inner, first, second


def _change(pair: Pair, A: Tensor, B: Tensor) -> Iterator[Item]:
    """Of two versions of one matrix: how far it moved, and in which directions."""
    D = _difference(A, B)
    seen = entries(D, "")
    inner, first, _ = _products(A, B)
    if first == 0:
        yield Skipped(pair.site, "relative change", "the first version is exactly zero")
        return
    moved = (seen.energy / Estimate.rounded(first, ulps=A.numel() ** 0.5)).sqrt()
    yield _read(pair, "relative change", moved)
    scale = inner / first
    yield _read(pair, "best scale", Estimate.rounded(scale, ulps=A.numel() ** 0.5))
    if seen.energy.value == 0:
        yield _read(pair, "turned change", Estimate.exactly(0.0))
        return
    turned = _turned(A, B, scale) / first
    yield _read(pair, "turned change", Estimate.rounded(turned, ulps=A.numel() ** 0.5).sqrt())
    generator = torch.Generator().manual_seed(pair.seed)
    yield from _of_difference(pair, D, seen, generator)
    yield from _directions(pair, A, B, generator)


def _difference(A: Tensor, B: Tensor) -> Tensor:
    """`B - A` in single precision at least, in which 16-bit numbers differ exactly."""
    wide = torch.float64 if torch.float64 in (A.dtype, B.dtype) else torch.float32
    return B.to(wide) - A.to(wide)


def _turned(A: Tensor, B: Tensor, scale: float) -> float:
    rows = max(1, PANEL // A.shape[1])
    pairs = zip(A.split(rows), B.split(rows), strict=True)
    return sum(float((Q.double() - scale * P.double()).square().sum()) for P, Q in pairs)


def _of_difference(
    pair: Pair, D: Tensor, seen: Entries, generator: torch.Generator
) -> Iterator[Item]:
    """Norm, rank and spikes of the difference."""
    s = leading(D, energy=seen.energy.high, vectors=False, generator=generator).spectrum
    top = Estimate(float(s.sigma[0]), float(s.low[0]), float(s.high[0]), s.how, s.risk)
    yield _read(pair, "change norm", top)
    ratio = (seen.energy / top**2).at_least(1.0).at_most(float(min(s.shape)))
    yield _read(pair, "change stable rank", ratio)
    if min(s.shape) < 8:
        yield Skipped(pair.site, "change spikes", f"{min(s.shape)} singular values have no bulk")
        return
    longest = (math.sqrt(float(seen.rows.max())), math.sqrt(float(seen.cols.max())))
    signs = RandomSigns(D, rms=seen.rms, longest=longest, largest=seen.largest, generator=generator)
    yield _read(pair, "change spikes", noise(s, energy=seen.energy, signs=signs).spikes)


def _directions(pair: Pair, A: Tensor, B: Tensor, generator: torch.Generator) -> Iterator[Item]:
    """Angles between the leading directions, and those of the second that are none of the first."""
    k = min(COMPARED, min(A.shape) // 2)
    if k < 1:
        return
    one, other = (leading(M, count=k + 1, generator=generator) for M in (A, B))
    angle = max(
        float(principal_angles(first[:, :k], second[:, :k])[-1])
        for first, second in ((one.left, other.left), (one.right, other.right))
    )
    off = math.asin(_off(one, A, k)) + math.asin(_off(other, B, k))
    ends = max(angle - off, 0.0), min(angle + off, math.pi / 2)
    how = f"{k} leading directions by block krylov"
    form = f"{k} directions"
    yield _read(pair, "largest angle", Estimate(min(angle, ends[1]), ends[0], ends[1], how), form)
    yield _read(pair, "intruders", _intruders(A, other.left[:, :k].double(), generator), form)


def _intruders(A: Tensor, Y: Float[Tensor, "m k"], generator: torch.Generator) -> Estimate:
    """Columns of `Y` whose cosine with each left singular vector of `A` is below the threshold."""
    m, n = A.shape
    if min(m, n) <= WHOLE_SIDE:
        U = torch.linalg.svd(A.double(), full_matrices=False)[0]
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
    return Reading(pair.site, name, estimate, SCAN, form)

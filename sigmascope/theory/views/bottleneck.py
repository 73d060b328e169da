"""Readings of a bottleneck: how many dimensions pass through a network, layer by layer."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Item, Reading, Skipped, Spectrum
from sigmascope.linalg import dense
from sigmascope.models import Subject
from sigmascope.survey.views.base import ProfileView
from sigmascope.theory import jacot2023

# ------------------------------------------------------------------------------
# How many dimensions a trained network's function uses, from its Jacobians.


FLOOR = 0.02  # of the largest singular value: what is below counts as gone
CLEAR = 3.0  # gap between singular values from which a rank is told at all
SHARE = 0.5  # of the largest gap, on a logarithmic scale: other gaps as large are in the interval
RISK = 0.05


def inner_dimension(sigma: Float64[Tensor, "n r"], *, mixtures: int | None = None) -> Estimate:
    """The number of dimensions that a function uses, from the Jacobians at many inputs.

    The rank with the widest gap below it in the median spectrum, each singular value relative to
    the largest; the interval holds the ranks with a gap almost as wide. A function of k coordinates
    has rank k at nearly every input, however many dimensions the layers between let through.

    Args:
        sigma: Singular values at every input, descending.
        mixtures: How many random mixtures stand for more outputs; as many dimensions are at least
            used then, with no upper end.

    Returns:
        With no gap of a factor of 3 anywhere, the interval holds every rank from that of the values
        above half of the largest to those above a fiftieth of it. The risk is that on tasks of
        known dimension (`jacot2023/ranks` in the experiments' log).

    Source:
        Jacot 2023, Sec. 2: the rank of the Jacobian is at most the bottleneck rank.
    """
    typical = [dense.median(of) for of in sigma.unbind(1)] if len(sigma) else []
    top = typical[0] if typical else 0.0
    if not top > 0:
        return Estimate(0.0, 0.0, 0.0, "the output depends on no input")
    relative = [max(v / top, FLOOR) for v in typical] + [FLOOR]
    gaps = [math.log(a / b) for a, b in pairwise(relative)]
    widest = max(gaps)
    rank = gaps.index(widest) + 1
    how = f"widest gap of the median spectrum of {len(sigma)} Jacobians, a factor of "
    how += f"{math.exp(widest):.2g}"
    if rank == mixtures:
        return Estimate(rank, rank, math.inf, f"all of {rank} mixtures of the outputs differ", RISK)
    if widest < math.log(CLEAR):
        low, high = (sum(v > level for v in relative) for level in (0.5, FLOOR))
        return Estimate(rank, min(low, rank), max(high, rank), f"{how}: no clear gap")
    near = [i + 1 for i, gap in enumerate(gaps) if gap >= SHARE * widest]
    return Estimate(rank, min(near), max(near), how, RISK)


NAME: q.View = "bottleneck"
THRESHOLD = 0.1  # of a singular value of a weight, or of a representation over the root of samples
RELATIVE = 0.1  # of a Jacobian's singular value, beside its largest
POINTS = 64  # samples whose Jacobian is read


# ------------------------------------------------------------------------------
# What the view reads of a model.


def bottleneck_items(subject: Subject) -> Iterator[Item]:
    """Ranks of weights, representations and Jacobians, and what the norm leaves unexplained."""
    for weight, s in subject.weight_spectra:
        rank = counted(s, THRESHOLD, "singular values")
        yield Reading(weight.site, q.WEIGHT_RANK, rank, NAME, weight.form)
        k = int(rank.value)
        sigma = s.sigma
        off = float(((sigma[:k] - 1).square().sum() + sigma[k:].square().sum()).sqrt())
        distance = Estimate.rounded(off, ulps=64 * len(sigma))
        yield Reading(weight.site, q.ISOMETRY_DISTANCE, distance, NAME, weight.form)
    before: Tensor | None = None
    for site, both in subject.activations.items():
        rows = both.samples
        if rows is None or not bool(rows.isfinite().all()):
            yield Skipped(site, NAME, "its rows cannot be told apart by sample, or are not finite")
            before = None
            continue
        X = rows.double()
        X = X - X.mean(0)
        s = torch.linalg.svdvals(X if len(X) <= X.shape[1] else torch.linalg.qr(X, mode="r")[1])
        rank = counted(s / math.sqrt(len(X)), THRESHOLD, "singular values over √samples")
        yield Reading(site, q.REPRESENTATION_RANK, rank, NAME)
        total = float(s.square().sum())
        if total > 0:
            share = Estimate.rounded(float(s[:2].square().sum()) / total, ulps=1e4)
            yield Reading(site, q.TWO_COMPONENT_VARIANCE, share, NAME)
        kernel = X @ X.mT
        if before is not None and float(kernel.norm()) > 0 and float(before.norm()) > 0:
            cosine = float((kernel * before).sum() / (kernel.norm() * before.norm()))
            angle = Estimate.rounded(math.acos(min(max(cosine, -1.0), 1.0)), ulps=1e6)
            yield Reading(site, q.KERNEL_ANGLE, angle, NAME)
        before = kernel
    # dimensions that the function uses, over the samples
    try:
        found = subject.jacobians
    except Refusal as reason:
        yield Skipped("(network)", q.JACOBIAN_RANK, str(reason))
    else:
        used = inner_dimension(found.sigma, mixtures=found.mixtures)
        yield Reading("(network)", q.INNER_DIMENSION, used, NAME)
        spectra = [s[s > RELATIVE * s[0]] for s in found.sigma if len(s) and float(s[0]) > 0]
        if spectra:
            yield Reading(
                "(network)", q.JACOBIAN_RANK, middle_half([float(len(s)) for s in spectra]), NAME
            )
            volumes = middle_half([float(s.log().sum()) for s in spectra])
            yield Reading("(network)", q.JACOBIAN_LOG_PSEUDO_DETERMINANT, volumes, NAME)
    # what only a plain stack of layers has: its tangent kernel by layer, balance, norm excess
    stack = subject.stack
    if isinstance(stack, str):
        yield Skipped("(network)", "norm excess and balance", stack)
        return
    assert isinstance(subject.batch, Tensor)
    rows = subject.batch.flatten(1).double().cpu()[:POINTS]
    excess, traces = [], []
    for x in rows:
        point = stack.at(x)
        s = torch.linalg.svdvals(point.jacobian)
        s = s[s > 0]
        if len(s):
            excess.append(stack.weight_norm - jacot2023.least_norm(s, stack.depth))
            traces.append(sum(jacot2023.ntk_trace(point)))
    if excess:
        yield Reading("(network)", q.NORM_EXCESS, middle_half(excess), NAME)
        per_layer = [t / stack.depth for t in traces]
        yield Reading("(network)", q.NTK_TRACE_PER_LAYER, middle_half(per_layer), NAME)
    defect = Estimate.rounded(stack.balance_defect(), ulps=1e4)
    yield Reading("(network)", q.BALANCE_DEFECT, defect, NAME)


def counted(s: Spectrum | Tensor, threshold: float, how: str) -> Estimate:
    """How many singular values are above a threshold; the interval moves it by a factor of two.

    Where the interval is one number, the spectrum has a gap there.

    Args:
        s: Singular values.
        threshold: What they are compared with.
        how: What that is, in words.
    """
    sigma = s.sigma if isinstance(s, Spectrum) else s
    low, value, high = (int((sigma > t).sum()) for t in (2 * threshold, threshold, threshold / 2))
    return Estimate(value, low, high, f"{how} above {threshold:g}, interval for half and twice it")


def middle_half(values: list[float]) -> Estimate:
    """The median over samples, with the range of their middle half.

    Args:
        values: One a sample.
    """
    low, middle, high = (float(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
    how = f"median of {len(values)} samples, the interval holds the middle half"
    return Estimate(middle, min(low, middle), max(high, middle), how)


VIEW = ProfileView("bottleneck", bottleneck_items)

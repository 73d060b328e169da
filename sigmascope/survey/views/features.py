"""Readings of the features: adjoints, and shares of the neural tangent kernel."""

import math
from collections.abc import Iterator
from itertools import groupby

import scipy
import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Item, Reading, Skipped
from sigmascope.linalg import ranks
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.krylov import trace_of_forms
from sigmascope.models import Subject
from sigmascope.models.jacobian import Sweep
from sigmascope.models.layers import module_name
from sigmascope.survey.views.base import ProfileView

RISK = 0.01  # chance that the interval of a sampled quantity misses
LAYERS = 4  # whose roundings are as large as all together, of which some cancel
SINGLE = torch.finfo(torch.float32).eps  # rounding of a model in single precision


def feature_items(subject: Subject) -> Iterator[Item]:
    """Adjoints and shares of the neural tangent kernel."""
    view: q.View = "features"
    swept = subject.adjoints
    layers = {c.site for c in subject.calls}
    for site, why in swept.silent.items():
        if site in layers:
            yield Skipped(site, view, why)
    if not swept.whole:
        why = (
            f"it needs every output, and {len(swept.outputs)} of {swept.total} backward passes are "
            "spent; a larger `outputs` (`--outputs`) takes them all"
        )
        yield Skipped("(all layers)", q.ADJOINT_LOG_PSEUDO_DETERMINANT, why)
    for site, adjoint in swept.adjoints.items():
        if site not in layers:
            continue
        if not bool(adjoint.norm_sq.isfinite().all()):
            bad = int((~adjoint.norm_sq.isfinite()).sum())
            yield Reading(site, q.NON_FINITE_ENTRIES, Estimate.exactly(bad), view)
            continue
        sigma = adjoint.sigma
        size = over_outputs(adjoint.norm_sq, swept, largest=float(sigma.square().max()))
        value, low, high = (max(e, 0.0) ** 0.5 for e in (size.value, size.low, size.high))
        yield Reading(site, q.ADJOINT_NORM, Estimate(value, low, high, size.how, size.risk), view)
        there = sigma[sigma[:, 0] > 0]
        if not len(there):
            yield Skipped(site, q.ADJOINT_RANK, "the derivative is exactly zero for every sample")
            continue
        # rank and volume, of the singular values of the samples whose derivative is not zero
        samples, outputs = adjoint.norm_sq.shape
        shape = (outputs, adjoint.width)
        some = "" if len(there) == samples else " that are not zero"
        how = f"mean over {len(there)} samples{some}" + (f", {_of(swept)}" if _of(swept) else "")
        # Roots of eigenvalues of Gram matrices, with what rounding leaves of them. A model in half
        # precision rounds the derivatives themselves, in each layer that they come through by half
        # of `rounding` of each, and singular values move by no more than all of that together
        # (Weyl 1912).
        square, slack = there.square(), 16 * min(shape) * EPS * there[:, :1].square()
        off = (LAYERS / 2 * swept.rounding if swept.rounding > SINGLE else 0.0) * (
            torch.linalg.vector_norm(there, dim=1, keepdim=True)
        )
        least = ((square - slack).clamp(min=0).sqrt() - off).clamp(min=0)
        ends = least, there, (square + slack).sqrt() + off
        counts = ranks.rank_counts(ends, shape)
        risk = 0.0
        if swept.whole and bool((counts[0] < counts[1]).any()) and swept.rounding > SINGLE:
            why = "its smallest singular values are no larger than what half precision rounds off"
            yield Skipped(site, q.ADJOINT_LOG_PSEUDO_DETERMINANT, why)
        elif swept.whole:
            volume = _mean(ranks.log_volumes(ends, counts), len(there), how)
            yield Reading(site, q.ADJOINT_LOG_PSEUDO_DETERMINANT, volume, view)
        if not swept.whole:
            counts, risk = _least_ranks(ends, counts[1], adjoint.width, swept)
        rank = _mean(counts, samples, how, risk=risk)  # of those that are zero it is zero
        yield Reading(site, q.ADJOINT_RANK, rank, view)
    yield from _tangent_kernel(subject)


def _least_ranks(
    ends: ranks.Ends, value: Tensor, width: int, swept: Sweep
) -> tuple[ranks.Ends, float]:
    """The ranks of Jacobians of which some rows, or mixtures `G J` of all, are known; their risk.

    Of a mixture, `σ_j(J) >= σ_j(G J) / ‖G‖`, and `σ_1(J)` is bounded as by `trace_of_forms`. Rows
    that were chosen say nothing of how large the others are, and so only that there is a rank.
    """
    total, low, high = swept.total, ends[0], ends[2]
    most = value.clamp(min=min(total, width))
    if not swept.mixed:
        return (torch.ones_like(value), value, most), 0.0
    k, chance = len(swept.outputs), RISK / (2 * len(value))
    norm = 1 + math.sqrt(k / total) + math.sqrt(2 * math.log(1 / chance) / total)
    fewest = 2 * float(scipy.special.gammaincinv(k / 2, chance))  # of chi squared
    top = high[:, :1] * math.sqrt(total / fewest)
    rtol = ranks.rank_tolerance((total, width))
    surely = (low > rtol * norm * top).sum(1).clamp(min=1)
    return (surely, torch.maximum(value, surely), most), RISK


def _mean(ends: ranks.Ends, count: int, how: str, *, risk: float = 0.0) -> Estimate:
    """Over so many samples, of which those that are not given count zero."""
    low, value, high = (float(end.double().sum()) / count for end in ends)
    # each is asked to hold for all samples together
    return Estimate(value, min(low, value), max(high, value), how, risk)


def over_outputs(
    parts: Float64[Tensor, "n k"], swept: Sweep, *, largest: float | None = None
) -> Estimate:
    """Sum over all outputs, a mean over samples, of squared norms.

    Args:
        parts: For every sample and backward pass.
        swept: What the passes started from: every output, mixtures of all, or some that were
            chosen, which say nothing of the others but that they have no negative squares.
        largest: Largest eigenvalue of a sample's products, if known; see `trace_of_forms`.
    """
    n, k = parts.shape
    whole = float(parts.sum()) / n
    if swept.whole:
        return Estimate.rounded(whole, ulps=64 * swept.rounding / EPS, how="autograd")
    how = f"autograd, {_of(swept)}"
    if not swept.mixed:
        return Estimate(whole * swept.total / k, whole, float("inf"), how)
    scale = swept.total / n
    top = None if largest is None else scale * largest
    return trace_of_forms(scale * parts, how=how, risk=RISK, largest=top)


def _of(swept: Sweep) -> str:
    """What stands for the outputs, where not all are differentiated."""
    if swept.whole:
        return ""
    kind = "normal mixtures of" if swept.mixed else "chosen of"
    return f"{len(swept.outputs)} {kind} {swept.total} outputs"


def _tangent_kernel(subject: Subject) -> Iterator[Item]:
    """Each module's share of the trace of the neural tangent kernel, a mean over samples.

    A module that is called more than once, or whose weight is tied to another's, adds its
    gradients before they are squared; of their angle nothing is known here, so the share lies
    between those of opposed and of aligned gradients.
    """
    swept = subject.adjoints
    owners = subject.owners
    key = lambda site: owners[module_name(site)]
    for name, draws in swept.sketches.items():
        # mean over samples of a share that was sketched with normal mixtures of all gradients
        how = f"autograd, normal mixtures of all samples and outputs, {draws.shape[1]} draws"
        scale = subject.adjoints.total / subject.count
        yield Reading(
            name, q.NTK_TRACE, trace_of_forms(scale * draws, how=how, risk=RISK), "features"
        )
    try:
        _ = subject.unaccounted
    except Refusal as reason:  # the output has no derivative by the parameters
        yield Skipped("(all layers)", q.NTK_TRACE, str(reason))
        return
    formulas = [site for site in swept.adjoints if key(site) not in swept.sketches]
    for owner, group in groupby(sorted(formulas, key=key), key=key):
        shares = [swept.adjoints[site].share_sq for site in group]
        if any(s is None for s in shares):
            kind = type(subject.model.get_submodule(owner)).__name__
            why = f"per-sample gradients of {kind} are not covered"
            yield Skipped(owner, q.NTK_TRACE, why)
            continue
        covered = torch.stack([s for s in shares if s is not None])
        if bool(covered.isfinite().all()) and any(
            p.requires_grad for p in subject.model.get_submodule(owner).parameters()
        ):
            share = over_outputs(covered.sum(0), swept)
            if len(covered) > 1:  # of several uses, whose gradients add up at unknown angles
                sizes = covered.sqrt()
                most = sizes.sum(0).square()
                least = (2 * sizes.amax(0) - sizes.sum(0)).clamp(min=0).square()
                value, high = share.value, over_outputs(most, swept).high
                low = over_outputs(least, swept, largest=float(most.sum(1).max())).low
                how = f"{share.how}, {len(covered)} uses, their angle unknown"
                share = Estimate(value, min(low, value), max(high, value), how, share.risk)
            yield Reading(owner, q.NTK_TRACE, share, "features")


VIEW = ProfileView("features", feature_items)

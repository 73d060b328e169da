"""Readings of the features: adjoints, and shares of the neural tangent kernel."""

import math
from collections.abc import Iterator
from itertools import groupby

import torch
from jaxtyping import Float64
from scipy import stats
from torch import Tensor

from sigmascope.linalg import Estimate, Spectrum, log_pseudo_determinant, matrix_rank
from sigmascope.probes import Adjoint, Subject
from sigmascope.survey.readings import Item, Reading, Skipped, View

SKETCH_RISK = 0.1  # see _sketched
RISK = 0.01  # chance that the interval of a sampled quantity misses


def feature_items(subject: Subject) -> Iterator[Item]:
    """Adjoints and shares of the neural tangent kernel."""
    view: View = "features"
    swept = subject.adjoints
    layers = {c.site for c in subject.calls}
    for site, why in swept.silent.items():
        if site in layers:
            yield Skipped(site, view, why)
    sampled = (
        ""
        if len(swept.outputs) == swept.total
        else f"{len(swept.outputs)} of {swept.total} outputs"
    )
    if sampled:
        why = (
            f"it needs every output, and {sampled} are differentiated; a larger `outputs` "
            "(`--outputs`) takes them all"
        )
        yield Skipped("(all layers)", "adjoint log pseudo-determinant", why)
    for site, adjoint in swept.adjoints.items():
        if site in layers:
            yield from _adjoint(site, adjoint, sampled=sampled, total=swept.total)
    yield from _tangent_kernel(subject)


def _adjoint(site: str, adjoint: Adjoint, *, sampled: str, total: int) -> Iterator[Item]:
    view: View = "features"
    if not bool(adjoint.norm_sq.isfinite().all()):
        bad = int((~adjoint.norm_sq.isfinite()).sum())
        yield Reading(site, "non-finite entries", Estimate.exactly(bad), view)
        return
    size = _over_outputs(adjoint.norm_sq.mean(0), sampled=sampled, total=total)
    yield Reading(site, "adjoint norm", _root(size), view)
    shape = (adjoint.norm_sq.shape[1], adjoint.width)
    spectra = [_sample_spectrum(sigma, shape) for sigma in adjoint.sigma if float(sigma[0]) > 0]
    if not spectra:
        yield Skipped(site, "adjoint rank", "the derivative is exactly zero for every sample")
        return
    some = "" if len(spectra) == len(adjoint.sigma) else " that are not zero"
    how = f"mean over {len(spectra)} samples{some}" + (f", {sampled}" if sampled else "")
    none = [Estimate.exactly(0.0)] * (len(adjoint.sigma) - len(spectra))
    rank = _mean([matrix_rank(s) for s in spectra] + none, how)
    if sampled:  # of some rows only: the whole Jacobian has at least this rank
        rank = Estimate(rank.value, rank.low, max(float(min(total, adjoint.width)), rank.high), how)
    else:
        volume = _mean([log_pseudo_determinant(s) for s in spectra], how)
        yield Reading(site, "adjoint log pseudo-determinant", volume, view)
    yield Reading(site, "adjoint rank", rank, view)


def _sample_spectrum(sigma: Tensor, shape: tuple[int, int]) -> Spectrum:
    slack = 16 * min(shape) * 2.0**-52 * sigma[0].square()
    low, high = (sigma.square() - slack).clamp(min=0).sqrt(), (sigma.square() + slack).sqrt()
    return Spectrum(sigma, shape, "gram", low, high)


def _mean(parts: list[Estimate], how: str) -> Estimate:
    n = len(parts)
    low, value, high = (sum(getattr(p, end) for p in parts) / n for end in ("low", "value", "high"))
    return Estimate(value, min(low, value), max(high, value), how)


def _over_outputs(per_output: Tensor, *, sampled: str, total: int) -> Estimate:
    """The sum over all outputs, from all of them or from a random sample without replacement."""
    k = len(per_output)
    whole = float(per_output.sum())
    if not sampled:
        return Estimate.rounded(whole, ulps=64, how="autograd")
    value = whole * total / k
    if k < 2:
        return Estimate(value, whole, float("inf"), f"autograd, {sampled}")
    error = total * float(per_output.std()) * ((1 - k / total) / k) ** 0.5
    reach = float(stats.t.ppf(1 - RISK / 2, k - 1)) * error
    return Estimate(
        value, max(value - reach, whole), max(value + reach, whole), f"autograd, {sampled}", RISK
    )


def _root(square: Estimate) -> Estimate:
    value, low, high = (max(e, 0.0) ** 0.5 for e in (square.value, square.low, square.high))
    return Estimate(value, low, high, square.how, square.risk)


def _tangent_kernel(subject: Subject) -> Iterator[Item]:
    """Each module's share of the trace of the neural tangent kernel, a mean over samples.

    A module that is called more than once, or whose weight is tied to another's, adds its
    gradients before they are squared; of their angle nothing is known here, so the share lies
    between those of opposed and of aligned gradients.
    """
    swept = subject.adjoints
    sampled = (
        ""
        if len(swept.outputs) == swept.total
        else f"{len(swept.outputs)} of {swept.total} outputs"
    )
    owners = _owners(subject)
    key = lambda site: owners[site.split("#")[0]]
    for name, draws in swept.sketches.items():
        yield Reading(name, "NTK trace", _sketched(subject, draws), "features")
    formulas = [site for site in swept.adjoints if site.split("#")[0] not in swept.sketches]
    for owner, group in groupby(sorted(formulas, key=key), key=key):
        shares = [swept.adjoints[site].share_sq for site in group]
        if any(s is None for s in shares):
            kind = type(subject.model.get_submodule(owner)).__name__
            why = f"per-sample gradients of {kind} are not covered"
            yield Skipped(owner, "NTK trace", why)
            continue
        covered = torch.stack([s for s in shares if s is not None])
        if not bool(covered.isfinite().all()) or not _trains(subject, owner):
            continue
        alone = _over_outputs(covered.sum(0).mean(0), sampled=sampled, total=swept.total)
        if len(shares) > 1:
            most = covered.sqrt().sum(0).square()
            least = (2 * covered.sqrt().amax(0) - covered.sqrt().sum(0)).clamp(min=0).square()
            high = _over_outputs(most.mean(0), sampled=sampled, total=swept.total).high
            low = _over_outputs(least.mean(0), sampled=sampled, total=swept.total).low
            how = f"{alone.how}, {len(shares)} uses, their angle unknown"
            alone = Estimate(
                alone.value, min(low, alone.value), max(high, alone.value), how, alone.risk
            )
        yield Reading(owner, "NTK trace", alone, "features")


def _sketched(subject: Subject, draws: Float64[Tensor, "pieces k"]) -> Estimate:
    """Mean over samples of a share that was sketched with random signs.

    The draws are few, positive and skewed, so the interval is one of Student's on the logarithm; at
    a nominal 1 % it missed 0 to 8 % of 150 times on five recurrent networks, whence the risk.
    """
    swept = subject.adjoints
    scale = swept.total / len(swept.outputs) / subject.count
    value, n = scale * float(draws.sum()), draws.numel()
    how = f"autograd, random signs, {n} draws"
    if n < 2:
        return Estimate(value, 0.0, float("inf"), how)
    if value <= 0:
        return Estimate(0.0, 0.0, 0.0, how, SKETCH_RISK)
    relative = float(draws.std() / draws.mean()) / n**0.5
    factor = math.exp(min(float(stats.t.ppf(0.995, n - 1)) * relative, 700.0))
    return Estimate(value, value / factor, value * factor, how, SKETCH_RISK)


def _trains(subject: Subject, owner: str) -> bool:
    return any(p.requires_grad for p in subject.model.get_submodule(owner).parameters())


def _owners(subject: Subject) -> dict[str, str]:
    """For every module, the first one that shares a parameter with it."""
    first: dict[int, str] = {}
    owners: dict[str, str] = {}
    for name, module in subject.model.named_modules():
        own = [id(p) for p in module.parameters(recurse=False)]
        owners[name] = next((first[p] for p in own if p in first), name)
        first.update({p: owners[name] for p in own if p not in first})
    return owners

"""Which inner dimension a network learned, and whether it is that of its task."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Estimate, Shown
from sigmascope.linalg.krylov import extreme_eigenvalues
from sigmascope.models import Subject
from sigmascope.models.samples import Batch
from sigmascope.models.structure import Stack
from sigmascope.theory import jacot2023
from sigmascope.theory.bottleneck.depths import Fit, fit_of
from sigmascope.theory.views.bottleneck import counted, inner_dimension, middle_half

Recovery = Literal["recovering", "underestimating", "overestimating", "unknown"]
PASSES = 0.1  # of the largest singular value: directions below do not count as passed on
SETTLED = 0.3  # balance defect of weights that a penalty has brought near a minimum
POINTS = 32  # inputs at which the tangent kernel of a stack is read


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """One way of counting dimensions, or a number that bears on it.

    Attributes:
        name: What was measured.
        site: Where; `"(network)"` for the whole.
        estimate: The number.
        says: What it means, in a few words.
    """

    name: str
    site: str
    estimate: Estimate
    says: str


@final
@dataclass(frozen=True, slots=True, repr=False)
class Bottleneck(Shown):
    """The inner dimension of a trained network.

    Attributes:
        rank: How many dimensions its function uses.
        layers: Those that pass the fewest dimensions on.
        kind: Whether the network passes as many dimensions as its function uses and fits the data
            (`"recovering"`), passes more (`"overestimating"`), has settled on too few to fit
            (`"underestimating"`), or what is known does not tell.
        evidence: What speaks for it, and what does not agree.
        says: In plain words.
    """

    rank: Estimate
    layers: tuple[str, ...]
    kind: Recovery
    evidence: tuple[Evidence, ...]
    says: str


@door
def bottleneck(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Tensor | None = None,
    kernel: bool = False,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> Bottleneck:
    """Which inner dimension a trained network uses, where, and whether its task needs it.

    Args:
        model: A trained network of any kind.
        batch: Samples of the task, 64 or more.
        targets: Theirs, values or classes; without them nothing tells whether the network fits.
        kernel: Whether to find the norm of the tangent kernel's Gram matrix too.
        batch_dim: Where the batch has its samples.
        generator: Draws mixtures of outputs, where there are more than 64.

    Raises:
        Refusal: If the model or the batch cannot be measured.

    Source:
        Jacot 2023, Sec. 2 to 4.

    Cost: two forward passes, one backward pass for each of up to 64 outputs; with `kernel` about
    sixty passes more.
    """
    subject = Subject(model, batch, targets, batch_dim=batch_dim, generator=generator)
    jacobians = subject.jacobians
    rank = inner_dimension(jacobians.sigma, mixtures=jacobians.mixtures)
    if not subject.calls:
        raise Refusal(
            "The model must call its layers on the batch, one at a time, got none that it calls. "
            "Measure the module that does."
        )
    # directions of what each hidden layer writes on the batch, around its mean
    passed: list[Evidence] = []
    for site, both in subject.preactivations.items():
        X = both.samples
        if site == subject.calls[-1].site or X is None or not bool(X.isfinite().all()):
            continue
        s = torch.linalg.svdvals(X.double() - X.double().mean(0))
        if len(s) and float(s[0]) > 0:
            written = counted(s / s[0], PASSES, "directions relative to the largest")
            passed.append(Evidence("written rank", site, written, "directions passed on"))
    by = f"by {jacobians.by}" + (
        f", {jacobians.mixtures} random mixtures of the outputs" if jacobians.mixtures else ""
    )
    evidence = [Evidence(q.INNER_DIMENSION, "(network)", rank, f"singular values {by}"), *passed]
    narrow = min(passed, key=lambda e: e.estimate.value, default=None)
    for weight, s in subject.weight_spectra:
        sigma = s.sigma
        if len(sigma) and float(sigma[0]) > 0:
            relative = counted(sigma / sigma[0], PASSES, "singular values relative to the largest")
            site = weight.site.removesuffix(".weight")
            evidence.append(Evidence("relative weight rank", site, relative, "on any input"))
    stack = subject.stack
    if isinstance(stack, Stack) and isinstance(subject.batch, Tensor):
        points = [stack.at(x) for x in subject.batch.flatten(1).double().cpu()[:POINTS]]
        trace = middle_half([sum(jacot2023.ntk_trace(p)) / stack.depth for p in points])
        words = "narrowness of the minimum; several times as large where the rank is too small"
        evidence.append(Evidence(q.NTK_TRACE_PER_LAYER, "(network)", trace, words))
        spectra = [torch.linalg.svdvals(p.jacobian) for p in points]
        costs = [jacot2023.least_norm(s[s > 0], stack.depth) for s in spectra if s[0] > 0]
        if costs:
            gap = stack.weight_norm - max(costs)
            excess = Estimate.rounded(gap, ulps=1e4)
            words = (
                f"of a squared norm of {stack.weight_norm:.4g}, beyond the least for the Jacobian"
            )
            evidence.append(Evidence("smallest norm excess", "(network)", excess, words))
        defect = Estimate.rounded(stack.balance_defect(), ulps=1e4)
        evidence.append(
            Evidence(q.BALANCE_DEFECT, "(network)", defect, "zero at a minimum with a penalty")
        )
    if kernel:
        g = generator or torch.Generator().manual_seed(0)
        ends = extreme_eigenvalues(
            subject.tangent_kernel(), sides="top", steps=24, tolerance=1e-3, generator=g
        )
        words = (
            f"of the tangent kernel of {subject.count} samples: their number times the curvature"
        )
        evidence.append(Evidence("NTK norm", "(network)", ends.top[0], words))
    fit = None if targets is None else fit_of(subject, targets)
    if fit is not None:
        evidence.append(Evidence("unexplained", "(network)", fit.unexplained, fit.says))
    kind, why = _kind(rank, narrow, fit, stack)
    layers = tuple(e.site for e in passed if narrow and e.estimate.value == narrow.estimate.value)
    span = "" if rank.low == rank.high else f" [{rank.low:.0f}, {rank.high:.0f}]"
    used = f"{rank.value:.0f}{span}" if math.isfinite(rank.high) else f"{rank.low:.0f} or more"
    one = "dimension" if rank.value == 1 else "dimensions"
    words = f"The function uses {used} {one} of its input"
    if narrow is not None:
        where = layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
        words += f"; the narrowest of its layers ({where}) pass on {narrow.estimate.value:.0f}"
    says = f"{words}; {why}."
    return Bottleneck(rank, layers, kind, tuple(evidence), says)


def _kind(
    rank: Estimate, narrow: Evidence | None, fit: Fit | None, stack: Stack | str
) -> tuple[Recovery, str]:
    """The verdict, and its reason as the end of a sentence."""
    if math.isclose(rank.low, 0.0) or rank.how.endswith("no clear gap"):
        return "unknown", "no gap in the Jacobians tells used dimensions from others"
    if math.isinf(rank.high):
        return "unknown", "it may use more than there were mixtures of its outputs"
    if fit is not None and not fit.fits:
        if isinstance(stack, str):
            return "unknown", f"{fit.says}, and whether it has settled cannot be told: {stack}"
        if stack.depth < 2:  # whose balance is zero wherever its weights are
            one = "one layer alone has no balance to tell it by"
            return "unknown", f"{fit.says}, and whether it has settled cannot be told: {one}"
        if stack.balance_defect() > SETTLED:
            return "unknown", f"{fit.says}, and the weights have not settled: train on"
        return "underestimating", f"the weights have settled, and {fit.says}"
    if narrow is not None and narrow.estimate.low > rank.high:
        return "overestimating", "with more depth or penalty they would pass on fewer"
    if fit is None:
        return "unknown", "without targets nothing tells whether it fits"
    if narrow is None:
        return "unknown", "no layer writes rows that can be counted"
    return "recovering", fit.says

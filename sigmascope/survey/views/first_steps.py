"""Readings of the first loss and its gradient, and of how much a test of targets could tell."""

import math
from collections.abc import Iterator
from statistics import median

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.records import Estimate, Item, Reading, View
from sigmascope.survey.views.task import FEWEST, MOST, NEIGHBOURS, neighbours, target_rows

VIEW: View = "setup"
CLOSE = 1e-3  # of `log k`, by which a loss of equal scores shows that it is counted in nats
DRAWS = 16  # random targets that a test must tell from chance
PERMUTATIONS = 100
RISK = 0.05


def first_loss_items(subject: Subject) -> Iterator[Item]:
    """Nats above equal scores; how much of the targets neighbours could tell at most."""
    loss, targets, output = subject.loss, subject.targets, subject.output
    if loss is None or not isinstance(targets, Tensor) or not sums.is_finite(output):
        return
    if not targets.is_floating_point() and output.ndim > 1:
        yield from _nats(subject, targets)
    yield from _power(subject, targets)


def _nats(subject: Subject, targets: Tensor) -> Iterator[Item]:
    """The first loss less that of equal scores, where this is the logarithm of their number."""
    loss, output = subject.loss, subject.output.detach()
    assert loss is not None
    with torch.no_grad():
        now, even = (float(loss(o, targets)) for o in (output, torch.zeros_like(output)))
    sizes = {output.shape[1], output.shape[-1]}
    counts = [k for k in sizes if k > 1 and abs(even - math.log(k)) <= CLOSE * math.log(k)]
    if counts and math.isfinite(now):
        excess = Estimate.rounded(now - even, ulps=2**20)
        yield Reading("(loss)", q.NATS_OVER_EQUAL_SCORES, excess, VIEW)


def polyak_items(subject: Subject, square: float) -> Iterator[Item]:
    """The learning rate at which a plain step would take the whole first loss away.

    Args:
        subject: With targets and a loss.
        square: Squared norm of the gradient of the loss, in the model's own modes.

    Source:
        Polyak 1987, Sec. 5.3, with zero for the least loss.
    """
    assert subject.loss is not None
    with torch.no_grad():
        now = float(subject.loss(subject.output.detach(), subject.targets))
    if 0 < square < math.inf and 0 < now < math.inf:
        step = Estimate.rounded(now / square, ulps=2**20)
        yield Reading("(loss)", q.POLYAK_STEP, step, VIEW)


def _power(subject: Subject, targets: Tensor) -> Iterator[Item]:
    first = next((c.site for c in subject.calls), "")
    both = subject.activations.get(first)
    wanted = target_rows(targets, subject.count)
    rows = None if both is None else both.samples
    if rows is None or wanted is None or subject.count < FEWEST or not sums.is_finite(rows):
        return
    limits = neighbour_limits(rows, wanted)
    if limits is not None:
        told, control = (Estimate.rounded(v, ulps=2**20) for v in limits)
        yield Reading(first, q.TOLD_BY_NEIGHBOURS_AT_MOST, told, VIEW)
        yield Reading(first, q.TOLD_OF_SMOOTH_TARGETS, control, VIEW)


def neighbour_limits(rows: Tensor, wanted: Float64[Tensor, "n k"]) -> tuple[float, float] | None:
    """How much of the targets a sample's neighbours may tell at most, and could tell of others.

    The agreement of a sample with its five nearest others is divided by what equal targets would
    have. The first number is its upper limit, at 95 %, from permuted targets. The second is the
    test's power on these inputs: the same agreement for random linear functions of the inputs, in
    standard deviations of permutations, the median of 16.

    Args:
        rows: Inputs, one row a sample.
        wanted: Targets, centred.

    Returns:
        None if all rows are equal.
    """
    X, Y = rows[:MOST].detach().double().cpu(), wanted[:MOST]
    X = X - X.mean(0)
    if not bool(X.any()) or not bool(Y.any()) or len(X) <= NEIGHBOURS:
        return None
    near = neighbours(X)
    g = torch.Generator().manual_seed(0)
    value, spread = _agreement(Y, near, g)
    drawn = X @ torch.randn(X.shape[1], DRAWS, generator=g, dtype=torch.float64)
    controls = [_agreement(y[:, None] - y.mean(), near, g) for y in drawn.unbind(1)]
    power = [v / s for v, s in controls if s > 0]
    reach = math.sqrt(2) * float(torch.erfinv(torch.tensor(1 - 2 * RISK)))
    return value + reach * spread, median(power) if power else 0.0


def _agreement(
    Y: Float64[Tensor, "n k"], near: Tensor, generator: torch.Generator
) -> tuple[float, float]:
    """Mean product with the neighbours over the mean square, less chance, and its spread."""
    size = Y.square().sum().item() * near.shape[1]
    told = lambda y: (y[near] * y[:, None]).sum().item() / size if size > 0 else 0.0
    chance = torch.tensor(
        [told(Y[torch.randperm(len(Y), generator=generator)]) for _ in range(PERMUTATIONS)]
    )
    return told(Y) - float(chance.mean()), float(chance.std())

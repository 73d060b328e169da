"""Readings of gradients: of single samples in the last layer, and of the first loss."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from statistics import median

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Item, Reading, Skipped
from sigmascope.linalg import dense
from sigmascope.models import Subject
from sigmascope.models.gradients import Dropped, dropped, reduced_gradients, watching_dropout
from sigmascope.models.layers import plain
from sigmascope.models.samples import chosen
from sigmascope.survey.views.base import ProfileView, rough
from sigmascope.survey.views.task import (
    FEWEST,
    MOST,
    NEIGHBOURS,
    ComparedInput,
    agreement,
    chance_agreement,
    compared_inputs,
    target_rows,
)


def gradient_items(subject: Subject) -> Iterator[Item]:
    """|cos| between the gradients of single samples in the last layer."""
    view: q.View = "gradients"
    found = subject.gradients
    if found is None:
        yield Skipped("(last layer)", view, subject.unsplit)
        return
    if not found.pairs:
        yield Skipped(found.site, view, "no pair of samples has a gradient that is not zero")
        return
    how = f"autograd, {found.pairs} pairs"
    for quantity, value in (
        (q.MINIMUM_COS, found.least),
        (q.MEAN_COS, found.mean),
    ):
        low, high = max(value - found.error, 0.0), min(value + found.error, 1.0)
        yield Reading(found.site, quantity, Estimate(value, low, high, how), view)


# ------------------------------------------------------------------------------
# One run forward and back as training will make it, and what is kept of its gradients.
#
# Gradients of all parameters take as much memory as the parameters. What is read of most of them is
# a few numbers, taken as each is made.


SHARES = 2**14  # numbers of which a share is known to 0.004 by chance
LEAST = 2  # samples: normalisers need more than one


@dataclass(frozen=True, slots=True)
class Gradient:
    """What is kept of the gradient of one parameter.

    Attributes:
        square: Sum of squares.
        largest: Of its entries' sizes, of complex ones of their parts; nan where one is nan.
        bad: Entries that are not finite.
        entries: Itself, where more is asked of it.
    """

    square: float
    largest: float
    bad: int
    entries: Tensor | None

    @classmethod
    def of(cls, gradient: Tensor, *, whole: bool) -> "Gradient":
        g = gradient if gradient.layout == torch.strided else gradient.to_dense()
        square = dense.square_sum(g)
        bad = 0 if math.isfinite(square) else g.numel() - int(g.isfinite().sum())
        return cls(square, dense.largest(g), bad, g.clone() if whole else None)


Gradients = Callable[[], dict[str, Gradient]]


class OwnModes:
    """One run forward and back in the model's own modes, made when it is first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._places: tuple[Dropped, ...] | None = None
        self.gradients = cache(self._gradients)

    def _gradients(self) -> dict[str, Gradient]:
        """Of the loss, or of a random sum of the outputs where there is none."""
        s = self._subject
        if s.loss is not None and s.targets is not None and (apart := s.loss_gradients()):
            kept: dict[str, Gradient] = {}
            for name, gradient in apart:
                kept[name] = self._kept(name, gradient)
                del gradient  # or it is held while the next ones are made
            return kept
        task = {"targets": s.targets, "loss": s.loss, "fused": True}
        ask = partial(reduced_gradients, s.model, s.batch, self._kept, **task)
        try:
            with watching_dropout(s.model) as places:
                found = ask()
        except Exception:  # noqa: BLE001 (operations may refuse to be watched; else it comes again)
            return ask()
        if all(m.training for m in s.model.modules()):
            self._places = tuple(places.values())
        return found

    @cached_property
    def _whole(self) -> frozenset[str]:
        """Names of weights of whose gradients more is asked."""
        return frozenset(name for name, _ in alike(self._subject))

    def _kept(self, name: str, gradient: Tensor) -> Gradient:
        return Gradient.of(gradient, whole=name in self._whole)

    def dropped(self) -> tuple[Dropped, ...]:
        """What dropout takes away in training mode; another run where there was none in it."""
        if self._places is not None:
            return self._places
        s = self._subject
        # of so many samples every layer writes numbers enough to tell a share by
        fewest = min((c.output.numel() for c in s.calls), default=0) / s.count
        few = max(LEAST, math.ceil(SHARES / fewest)) if fewest else s.count
        if few < s.count:
            with suppress(Exception):  # a model of one size of batch alone is run on all
                return dropped(s.model, chosen(s.batch, torch.arange(few), batch_dim=s.batch_dim))
        return dropped(s.model, *(piece.batch for piece, _ in s.pieces))


def alike(subject: Subject) -> Iterator[tuple[str, int]]:
    """Weights to be trained whose rows are all the same, and not zero; and how many rows."""
    for name, p in subject.model.named_parameters():
        rows = plain(p).flatten(1) if p.ndim > 1 and p.requires_grad else None
        if rows is None or min(rows.shape) < 2:
            continue
        # of the first two alone, to begin with: weights are large, and seldom alike
        if bool(rows[0].any()) and all(bool((r == rows[0]).all()) for r in (rows[1], rows)):
            yield name, len(rows)


# ------------------------------------------------------------------------------
# Readings of the first loss and its gradient, and of how much a test of targets could tell.


NAME: View = "setup"
CLOSE = 1e-3  # of `log k`, by which a loss of equal scores shows that it is counted in nats
DRAWS = 16  # random targets that a test must tell from chance
RISK = 0.05


def first_loss_items(subject: Subject) -> Iterator[Item]:
    """Nats above equal scores; how much of the targets neighbours could tell at most."""
    loss, targets, output = subject.loss, subject.targets, subject.output
    if loss is None or not isinstance(targets, Tensor) or not dense.is_finite(output):
        return
    if not targets.is_floating_point() and output.ndim > 1:
        # the first loss less that of equal scores, where this is the logarithm of their number
        scores = output.detach()
        with torch.no_grad():
            now, even = (float(loss(o, targets)) for o in (scores, torch.zeros_like(scores)))
        sizes = {scores.shape[1], scores.shape[-1]}
        counts = [k for k in sizes if k > 1 and abs(even - math.log(k)) <= CLOSE * math.log(k)]
        if counts and math.isfinite(now):
            excess = rough(now - even)
            yield Reading("(loss)", q.NATS_OVER_EQUAL_SCORES, excess, NAME)
    wanted = target_rows(targets, subject.count)
    if wanted is None or subject.count < FEWEST:
        return
    for inputs in subject.once(compared_inputs):
        limits = neighbour_limits(inputs, wanted)
        if limits is not None:
            told, control = (rough(v) for v in limits)
            yield Reading(inputs.site, q.TOLD_BY_NEIGHBOURS_AT_MOST, told, NAME)
            yield Reading(inputs.site, q.TOLD_OF_SMOOTH_TARGETS, control, NAME)


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
        step = rough(now / square)
        yield Reading("(loss)", q.POLYAK_STEP, step, NAME)


def neighbour_limits(
    inputs: ComparedInput, wanted: Float64[Tensor, "n k"]
) -> tuple[float, float] | None:
    """How much of the targets a sample's neighbours may tell at most, and could tell of others.

    The agreement of a sample with its five nearest others is divided by what equal targets would
    have. The first number is its upper limit, at 95 %, from its spread over all orders of the
    targets. The second is the test's power on these inputs: the same agreement for random linear
    functions of the inputs, in standard deviations of that spread, the median of 16.

    Args:
        inputs: Of the samples.
        wanted: Targets, centred.

    Returns:
        None if all rows are equal.
    """
    X, Y, near = inputs.rows, wanted[:MOST], inputs.near
    if not bool(X.any()) or not bool(Y.any()) or len(X) <= NEIGHBOURS:
        return None
    value, spread = _agreement(Y, near)
    g = torch.Generator().manual_seed(0)
    drawn = X @ torch.randn(X.shape[1], DRAWS, generator=g, dtype=torch.float64)
    controls = [_agreement(y[:, None], near) for y in (drawn - drawn.mean(0)).unbind(1)]
    power = [v / s for v, s in controls if s > 0]
    reach = math.sqrt(2) * float(torch.erfinv(torch.tensor(1 - 2 * RISK)))
    return value + reach * spread, median(power) if power else 0.0


def _agreement(Y: Float64[Tensor, "n k"], near: Tensor) -> tuple[float, float]:
    """Mean product with the neighbours over the mean square, less chance, and its spread."""
    size = Y.square().sum().item() * near.shape[1]
    if not size > 0:
        return 0.0, 0.0
    mean, spread = chance_agreement(Y, near)
    return (agreement(Y[None], near).item() - mean) / size, spread / size


VIEW = ProfileView("gradients", gradient_items)

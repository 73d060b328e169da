"""What a loss asks of an output, told by what it does with outputs that are made up.

Nothing is known of the user's loss but that it can be called. It is called with the true targets
and with outputs that were drawn, some of whose entries are moved: a loss of probabilities goes up
like a logarithm where the probability of what holds goes to zero, one of scores does not change
when all scores of a row are raised by the same, and so on.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sigmascope.probes.samples import Loss
from sigmascope.survey.task.labels import Labels

NEAR, NEARER = 1e-3, 1e-6  # from an end of the range of probabilities
SAME = 1e-4  # relative change that is none
LOGARITHM = 0.3  # share of one decade's growth that the next decades have, for a logarithm

Coupling = Literal["none", "scores", "shares", "picked"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a loss asks of outputs.

    Attributes:
        least: Outputs must be above this; `-inf` where any will do.
        most: Outputs must be below this; `inf` where any will do.
        coupling: How the outputs of a row depend on one another: `"scores"` where only their
            differences count (a softmax is inside the loss), `"shares"` where only their ratios
            count, `"picked"` where only that of the class that holds counts, so that a softmax
            must stand before it; else `"none"`.
        indifferent: Whether its gradient is zero at every output.
        stepped: Whether it changes with the outputs all the same, as what is rounded does.
        logarithms: Whether it is linear in the output of the class that holds and knows no other,
            as the negative log-likelihood is, or weighs outputs by targets that are probabilities,
            so that outputs must be logarithms of probabilities.
    """

    least: float = -math.inf
    most: float = math.inf
    coupling: Coupling = "none"
    indifferent: bool = False
    stepped: bool = False
    logarithms: bool = False

    @property
    def probabilities(self) -> bool:
        """Whether outputs must be probabilities."""
        return self.least == 0.0 and (self.most == 1.0 or self.coupling in ("shares", "picked"))


def needs_of(loss: Loss, output: Tensor, targets: Any, labels: Labels | None) -> Needs | None:
    """What a loss asks of outputs of this shape; None where it bears none that were made up.

    Cost: a dozen evaluations of the loss.
    """
    trial = _Trial(loss, output, targets, labels)
    shares, scores = trial.shares(), trial.scores()
    at_shares, slope = trial.value(shares), trial.slope(shares)
    if slope is None or not math.isfinite(at_shares):
        return None
    rough = trial.slope(scores)
    flat = not bool(slope.any()) and (rough is None or not bool(rough.any()))
    if flat:
        others = [trial.value(o) for o in (scores, trial.shares(), 1 - shares)]
        moved = any(math.isfinite(v) and not math.isclose(v, at_shares, rel_tol=SAME)
                    for v in others)  # fmt: skip
        return Needs(indifferent=True, stepped=moved)
    zero, one = (trial.logarithmic(shares, on=on) for on in (True, False))
    return Needs(
        0.0 if zero else -math.inf,
        1.0 if one else math.inf,
        trial.coupling(shares, scores, slope, logarithm=zero),
        logarithms=rough is not None and trial.picks_linearly(slope, rough),
    )


class _Trial:
    """A loss with its targets, and outputs made up for it."""

    def __init__(self, loss: Loss, output: Tensor, targets: Any, labels: Labels | None) -> None:
        self._loss, self._targets = loss, targets
        self._like = output.detach()
        wanted = None if labels is None else labels.wanted
        self._wanted = None if wanted is None or wanted.shape != output.shape else wanted
        self._dim = -1 if labels is None else labels.dim
        self._generator = torch.Generator().manual_seed(0)

    def _drawn(self) -> Tensor:
        return torch.randn(self._like.shape, generator=self._generator).to(self._like)

    def scores(self) -> Tensor:
        """Numbers of both signs."""
        return 3.0 * self._drawn()

    def shares(self) -> Tensor:
        """Probabilities of classes, or of each output by itself where there is one."""
        drawn = self._drawn()
        alone = self._like.shape[self._dim] == 1
        return (drawn.sigmoid() if alone else drawn.softmax(self._dim)).clamp(0.02, 0.98)

    def value(self, output: Tensor) -> float:
        """Of the loss; infinite where it raises."""
        with suppress(Exception), torch.no_grad():
            return float(self._loss(output, self._targets))
        return math.inf

    def slope(self, output: Tensor) -> Tensor | None:
        """Of the loss by the output; None where it raises or is not finite."""
        at = output.detach().clone().requires_grad_()
        with suppress(Exception), torch.enable_grad():
            held = self._loss(at, self._targets)
            if not held.requires_grad:  # nothing of the output is in it
                return torch.zeros_like(at)
            (slope,) = torch.autograd.grad(held, [at], allow_unused=True)
            if slope is None:
                return torch.zeros_like(at)
            return slope if bool(slope.isfinite().all()) else None
        return None

    def logarithmic(self, shares: Tensor, *, on: bool) -> bool:
        """Whether the loss grows like a logarithm where what holds (what does not) nears 0 (1)."""
        told = self._wanted is not None  # else every output is moved, and the loss may go down
        moved = self._wanted == on if told else torch.ones_like(shares, dtype=torch.bool)
        if not bool(moved.any()):
            return False
        far, near, nearer = (
            self.value(torch.where(moved, end if on else 1 - end, shares))
            for end in (0.3, NEAR, NEARER)
        )
        first, then = near - far, nearer - near
        seen = SAME * max(abs(far), abs(self.value(shares)))  # less than that may be rounding
        grows = abs(first) > seen and (first > 0 or not told)
        return grows and math.isfinite(then) and then / first > LOGARITHM

    def coupling(
        self, shares: Tensor, scores: Tensor, slope: Tensor, *, logarithm: bool
    ) -> Coupling:
        """How the outputs of a row depend on one another."""
        if self._like.shape[self._dim] < 2:
            return "none"
        size = [1 if d == self._dim % shares.ndim else n for d, n in enumerate(shares.shape)]
        rise = torch.rand(size, generator=self._generator).to(shares)
        if self._alike(scores, scores + 3.0 * rise):
            return "scores"
        if logarithm and self._alike(shares, shares * (0.5 + 0.5 * rise)):
            return "shares"
        off = None if self._wanted is None else slope[~self._wanted]
        picks = off is not None and len(off) > 0 and not bool(off.any())
        return "picked" if picks else "none"

    def picks_linearly(self, slope: Tensor, other: Tensor) -> bool:
        """Whether two slopes are the same, negative at the class that holds, and zero elsewhere.

        Or where rows of the targets are probabilities, the less the more probable.
        """
        linear = bool((slope - other).abs().max() <= SAME * slope.abs().max())
        if self._like.shape[self._dim] < 2 or not linear or not bool(slope.any()):
            return False
        if self._wanted is None:
            return any(self._weighs(slope, rows) for rows in self._rows())
        there = slope[self._wanted]
        return not bool(slope[~self._wanted].any()) and bool((there <= 0).all())

    def _rows(self) -> Iterator[Tensor]:
        """Targets that are probabilities, or the logarithms of some."""
        given = self._targets
        if not isinstance(given, Tensor) or given.shape != self._like.shape:
            return
        if given.is_floating_point():
            for rows in (given.to(self._like), given.to(self._like).exp()):
                sums = rows.sum(self._dim)
                if bool((rows >= 0).all()) and bool(((sums - 1).abs() < SAME).all()):
                    yield rows

    def _weighs(self, slope: Tensor, rows: Tensor) -> bool:
        """Whether a slope is minus the targets, but for a factor of each row, which is positive."""
        size = -slope.sum(self._dim, keepdim=True)
        gap = (slope + size * rows).abs().max()
        return bool((size >= 0).all()) and bool(gap <= SAME * slope.abs().max())

    def _alike(self, a: Tensor, b: Tensor) -> bool:
        first, second = self.value(a), self.value(b)
        return math.isfinite(first) and abs(first - second) <= SAME * (abs(first) + SAME)

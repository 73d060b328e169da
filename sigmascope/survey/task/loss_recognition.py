"""What a loss asks of an output, told by what it does with outputs that are made up.

Nothing is known of the user's loss but that it can be called. It is called with the true targets
and with outputs that were drawn, some of whose entries are moved: a loss of probabilities goes up
like a logarithm where the probability of what holds goes to zero, one of scores does not change
when all scores of a row are raised by the same, and so on.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from sigmascope.core.records import Brief
from sigmascope.models.samples import IGNORED, Loss, class_dim

# ------------------------------------------------------------------------------
# What kind of thing targets are, told by their values and by the shape of the output.


FEWEST, MOST = 3, 200  # distinct whole numbers on one column that may be classes
REPEATED = 4.0  # times that each of them occurs, on average

Kind = Literal["classes", "one of many", "several of many", "yes or no", "ids as values", "values"]


@dataclass(frozen=True, slots=True, repr=False)
class Labels(Brief):
    """Targets, as a loss is meant to compare them with an output.

    Attributes:
        kind: `"classes"` are whole numbers, one for each row of scores; `"one of many"` rows of 0
            with a single 1; `"several of many"` rows with any number of ones; `"yes or no"` one
            column of 0 and 1; `"ids as values"` one column of few whole numbers that come again
            and again; everything else is `"values"`.
        distinct: How many different ones there are: of numbers for `"yes or no"`, else of rows.
        dim: The dimension of the output that counts classes.
        wanted: `[*output]`, where the output should be one; None for values, and where shapes do
            not tell.
        counted: `[*output]` without `dim`, what the loss does not leave out; None as above.
    """

    kind: Kind
    distinct: int
    dim: int = -1
    wanted: Bool[Tensor, "..."] | None = None
    counted: Bool[Tensor, "..."] | None = None

    @property
    def exclusive(self) -> bool:
        """Whether exactly one of several classes holds for each row."""
        return self.kind in ("classes", "one of many") and (
            self.wanted is None or self.wanted.shape[self.dim] > 1
        )


def labels_of(output: Tensor, targets: Tensor) -> Labels | None:
    """What targets are; None where they are no numbers, or fit no shape of the output."""
    if targets.is_complex() or targets.numel() == 0 or output.ndim == 0:
        return None
    if not targets.is_floating_point() and targets.shape != output.shape:
        ids = targets.detach().long()
        counted = ids != IGNORED
        if not bool(counted.any()):
            return None
        distinct = len(ids[counted].unique())
        dim = class_dim(output, ids)
        if dim is None:
            return Labels("classes", distinct)
        scores = output.movedim(dim, -1)
        inside = counted & (ids >= 0) & (ids < scores.shape[-1])
        wanted = torch.zeros(scores.shape, dtype=torch.bool, device=output.device)
        safe = ids.clamp(0, scores.shape[-1] - 1).to(output.device)
        wanted.scatter_(
            -1, safe.reshape(*scores.shape[:-1], 1), inside[..., None].to(output.device)
        )
        return Labels("classes", distinct, dim, wanted.movedim(-1, dim), counted)
    values = targets.detach().double()
    distinct = len(values.reshape(len(values), -1).unique(dim=0))
    binary = bool(((values == 0) | (values == 1)).all())
    # what a loss squeezes before it compares is the same number for the same sample
    same = [n for n in targets.shape if n > 1] == [n for n in output.shape if n > 1]
    # masks of pictures: their last dimension counts columns, not classes
    wide = targets.ndim > 1 and targets.shape[-1] > 1 and not (targets.ndim > 3)
    wanted = values.bool().reshape(output.shape) if binary and same else None
    if binary and wide:
        one = bool((values.sum(-1) == 1).all())
        return Labels("one of many" if one else "several of many", distinct, wanted=wanted)
    if binary:
        return Labels("yes or no", len(values.unique()), wanted=wanted)
    kind = "values"
    if values[0].numel() == 1 and bool((values == values.round()).all()):
        known, start = len(values.unique()), float(values.min())
        few = FEWEST <= known <= MOST and values.numel() >= REPEATED * known
        if few and start in (0.0, 1.0) and known >= 0.5 * (float(values.max()) - start + 1):
            kind = "ids as values"
    return Labels(kind, distinct)


# ------------------------------------------------------------------------------
# How low a loss can get: over all outputs, over outputs that a model can have, over constants.


STEPS = 40  # of L-BFGS
IDLE = 8  # evaluations in a row that gain no more than rounding, behind which nothing is expected
ROOM = 1e-6  # share of the loss at usual outputs, that lies between losses that are told apart
SCALES = (1.0, 10.0, 100.0)  # of scores that take a side


UNBOUNDED = 1e3  # times the size of a loss, below which nothing seems to hold it


def constant_loss(
    output: Tensor,
    targets: Any,
    loss: Loss,
    within: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """The least loss of an output that is the same for every sample; infinite if there is none.

    Args:
        output: Of the model, of which only the shape and the kind of numbers matter.
        targets: What the loss compares it with.
        loss: Zero is no output for one of probabilities, so that other constants are tried too.
        within: What makes outputs of any numbers; `domain_of(output)` if not given.
    """
    within = within or domain_of(output)
    spread = lambda row: within(row).expand(output.shape)
    # Which dimension of an output has the samples: the first, or else the one that is as long.
    # Recurrent layers put time first, and so may what is made of them, while targets are by sample.
    # A first one that is a multiple has samples and places in one row.
    count = len(targets) if isinstance(targets, Tensor) and targets.ndim else 0
    long = [dim for dim, size in enumerate(output.shape) if size == count]
    dim = long[0] if len(long) == 1 and len(output) % count else 0
    return least_loss(spread, list(_constants(output, targets, dim)), targets, loss)[0]


def domain_of(output: Tensor) -> Callable[[Tensor], Tensor]:
    """What makes outputs of any numbers: logarithms of shares, where the model's are, else nothing.

    A loss that picks one logarithm has no least value over numbers that are none.
    """
    for dim in {1, -1} if output.ndim > 1 else ():
        sums = output.detach().logsumexp(dim)
        if output.shape[dim] > 1 and bool((sums.abs() < 1e-3).all()):
            return lambda o, dim=dim: o.log_softmax(dim)
    return lambda o: o


def _constants(output: Tensor, targets: Any, dim: int) -> Iterator[Tensor]:
    row = output.detach().narrow(dim, 0, 1)
    yield torch.zeros_like(row)
    yield torch.full_like(row, 0.5)
    yield torch.full_like(row, 1 / max(row.shape[-1], 1))
    if isinstance(targets, Tensor) and targets.is_floating_point() and targets.ndim:
        mean = targets.detach().to(row).mean(0, keepdim=True)
        mean = mean.movedim(0, dim) if dim < mean.ndim else mean
        if mean.shape == row.shape:
            yield mean


def least_loss(
    outputs: Callable[[Tensor], Tensor], starts: list[Tensor], targets: Any, loss: Loss
) -> tuple[float, Tensor | None]:
    """The least loss that is found from some starts, and the outputs that have it.

    Args:
        outputs: What is compared with the targets, from what is searched over.
        starts: Where to begin; the two that are best go on, by quasi-Newton steps.
        targets: What the loss compares outputs with.
        loss: Any; where it is not finite or raises, is not gone.

    Returns:
        Infinity and None where no start has a finite loss.
    """
    tried: list[tuple[float, Tensor]] = []
    for start in starts:
        with suppress(Exception), torch.no_grad():  # a loss may raise anything outside its domain
            tried.append((float(loss(outputs(start.detach()), targets)), start))
    order = sorted((pair for pair in tried if math.isfinite(pair[0])), key=lambda pair: pair[0])
    if not order:
        return math.inf, None
    best, where = order[0]
    for value, start in order[:2]:
        reached, place = _descend(outputs, start, value, targets, loss)
        if reached < best:
            best, where = reached, place
    with torch.no_grad():
        return best, outputs(where).detach()


def _descend(
    outputs: Callable[[Tensor], Tensor], start: Tensor, value: float, targets: Any, loss: Loss
) -> tuple[float, Tensor]:
    """Quasi-Newton steps from a start; the best that was seen."""
    best, idle = (value, start), 0

    def again(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best, idle
        at = torch.from_numpy(x).to(start).reshape(start.shape).requires_grad_()
        held = loss(outputs(at), targets)
        (slope,) = torch.autograd.grad(held, [at], allow_unused=True)
        slope = torch.zeros_like(at) if slope is None else slope
        if not bool(held.isfinite()) or not bool(slope.isfinite().all()):
            raise ArithmeticError  # the domain ends here
        value = held.item()
        gains = best[0] - value > 2 * torch.finfo(held.dtype).eps * abs(best[0])
        idle = 0 if gains else idle + 1
        if idle > IDLE:
            raise StopIteration
        if value < best[0]:
            best = (value, at.detach())
        return value, slope.double().cpu().numpy().ravel()

    # not torch's own, whose first use loads a compiler for a second
    how = {"maxiter": STEPS, "maxfun": 5 * STEPS // 4, "maxcor": 10, "ftol": 0, "gtol": 0}
    with torch.enable_grad(), suppress(Exception):
        x = start.detach().double().cpu().numpy().ravel()
        scipy.optimize.minimize(again, x, jac=True, method="L-BFGS-B", options=how)
    return best


def free_starts(output: Tensor, targets: Tensor, labels: Labels | None) -> list[Tensor]:
    """Outputs of which one is near the best for any common loss."""
    base = output.detach()
    starts = [base, torch.zeros_like(base), torch.full_like(base, 0.5)]
    if targets.is_floating_point() and targets.numel() == base.numel():
        starts.append(targets.detach().to(base).reshape(base.shape))
    return starts + _sides(base, labels)


def tail_starts(start: Tensor, output: Tensor, labels: Labels | None) -> list[Tensor]:
    """What the last weight could write: what it does, nothing, noise, a side for each label."""
    base = start.detach()
    noise = torch.randn(base.shape, generator=torch.Generator().manual_seed(0)).to(base)
    starts = [base, torch.zeros_like(base), noise, noise.abs()]
    return starts + (_sides(base, labels) if base.shape == output.shape else [])


def _sides(base: Tensor, labels: Labels | None) -> list[Tensor]:
    if labels is None or labels.wanted is None or labels.wanted.shape != base.shape:
        return []
    sign = 2.0 * labels.wanted.to(base) - 1.0
    shares = labels.wanted.to(base)
    return [shares, shares.clamp(1e-4, 1 - 1e-4), *(scale * sign for scale in SCALES)]


def room_of(loss: Loss, output: Tensor, targets: Tensor, now: float) -> float:
    """How far losses must lie apart to be told apart, as they are found by a search.

    Args:
        loss: What compares outputs with targets.
        output: Of the model, of which only the form matters.
        targets: Theirs.
        now: The loss of the model's outputs. That of outputs between 0 and 1 takes its place where
            it is less: a model that blows up its outputs has a loss beside which any other is zero.
    """
    drawn = torch.rand(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    try:
        with torch.no_grad():
            usual = abs(float(loss(drawn, targets)))
    except Exception:  # noqa: BLE001 (a loss may raise anything of outputs that are made up)
        usual = math.inf
    return ROOM * min(usual if math.isfinite(usual) else math.inf, abs(now))


NEAR, NEARER = 1e-3, 1e-6  # from an end of the range of probabilities
SAME = 1e-4  # relative change that is none
LOGARITHM = 0.3  # share of one decade's growth that the next decades have, for a logarithm

Coupling = Literal["each", "scores", "shares", "picked"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a loss asks of outputs.

    Attributes:
        least: Outputs must be above this; `-inf` where any will do.
        most: Outputs must be below this; `inf` where any will do.
        coupling: How the outputs of a row depend on one another: `"scores"` where only their
            differences count (a softmax is inside the loss), `"shares"` where only their ratios
            count, `"picked"` where only that of the class that holds counts, so that a softmax
            must stand before it; else `"each"`.
        indifferent: Whether its gradient is zero at every output.
        stepped: Whether it changes with the outputs all the same, as what is rounded does.
        logarithms: Whether it is linear in the output of the class that holds and knows no other,
            as the negative log-likelihood is, or weighs outputs by targets that are probabilities,
            so that outputs must be logarithms of probabilities.
    """

    least: float = -math.inf
    most: float = math.inf
    coupling: Coupling = "each"
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
            return "each"
        size = [1 if d == self._dim % shares.ndim else n for d, n in enumerate(shares.shape)]
        rise = torch.rand(size, generator=self._generator).to(shares)
        if self._alike(scores, scores + 3.0 * rise):
            return "scores"
        if logarithm and self._alike(shares, shares * (0.5 + 0.5 * rise)):
            return "shares"
        off = None if self._wanted is None else slope[~self._wanted]
        picks = off is not None and len(off) > 0 and not bool(off.any())
        return "picked" if picks else "each"

    def picks_linearly(self, slope: Tensor, other: Tensor) -> bool:
        """Whether two slopes are the same, negative at the class that holds, and zero elsewhere.

        Or where rows of the targets are probabilities, the less the more probable.
        """
        linear = bool((slope - other).abs().max() <= SAME * slope.abs().max())
        if self._like.shape[self._dim] < 2 or not linear or not bool(slope.any()):
            return False
        if self._wanted is None:
            given = self._targets
            if not isinstance(given, Tensor) or given.shape != self._like.shape:
                return False
            # targets that are probabilities, or the logarithms of some
            values = given.to(self._like)
            size = -slope.sum(self._dim, keepdim=True)
            for rows in (values, values.exp()) if given.is_floating_point() else ():
                even = bool(((rows.sum(self._dim) - 1).abs() < SAME).all())
                if not even or not bool((rows >= 0).all()):
                    continue
                # minus the targets, but for a factor of each row, which is positive
                gap = (slope + size * rows).abs().max()
                if bool((size >= 0).all()) and bool(gap <= SAME * slope.abs().max()):
                    return True
            return False
        there = slope[self._wanted]
        return not bool(slope[~self._wanted].any()) and bool((there <= 0).all())

    def _alike(self, a: Tensor, b: Tensor) -> bool:
        first, second = self.value(a), self.value(b)
        return math.isfinite(first) and abs(first - second) <= SAME * (abs(first) + SAME)

"""Whether what a model can put out, its targets and its loss suit one another."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from sigmascope.core.guard import random_states
from sigmascope.linalg import dense
from sigmascope.models import Subject
from sigmascope.models.samples import IGNORED, Loss, tensors
from sigmascope.models.structure import Tail
from sigmascope.survey.task.loss_recognition import (
    UNBOUNDED,
    Labels,
    Needs,
    constant_loss,
    domain_of,
    free_starts,
    labels_of,
    least_loss,
    needs_of,
    room_of,
    tail_starts,
)

SURELY = 32  # numbers of which all lie between 0 and 1, and not by chance
# numbers of the output, beyond which the best outputs are not searched for, and samples that have
# about as many stand for all where it is asked what a loss is
LARGEST = 10**6
DRAWS = (1.0, 10.0, 1e2, 1e4)  # sizes of what the last weight may write
GROWS = 10.0  # times, from the third of these to the last: then there is no end
FAR = (1.0, 10.0, 1e2, 1e3, 1e4)  # times the size of an output
PARTS, ADDED = (1, 2, 3, 4), (-1e3, -1.0, 1.0, 1e3)  # of the columns; to them
STEEPER = 30.0  # growth from each of these to the next that no line has
SAME = 1e-6
DRAWN = 5  # embeddings that are made up
NEARLY, ALMOST = 0.1, 1e-3  # of the way to the best constant's loss; from certainty
SURE, OUTSIDE = 0.95, 3.0  # a probability, and a score, that is certain of its answer


@dataclass(frozen=True, slots=True)
class TaskFit:
    """What was seen of outputs, targets and loss together.

    Attributes:
        labels: What the targets are; None where shapes do not tell.
        needs: What the loss asks of outputs; None where it bears none that were made up.
        closing: The last operation behind the last weight; empty where there is none.
        alike: Whether the last weight writes as many numbers as the output has.
        known: Whether the operations behind the last weight could be run by themselves.
        least: Outputs that the model can have are not below this.
        most: Nor above this.
        constant: Whether they are the same, whatever the weights.
        shares: Whether each row of them sums to one.
        now: The loss as it is.
        silent: That of outputs that are all zero.
        free: The least loss of any output.
        same: The least loss of one output for all samples.
        room: By how much losses differ that are told apart.
        reach: The least loss of outputs that the model can have.
        undecided: Share of the rows whose class is wrong even there.
        labels_best: Whether outputs of 0 and 1, as the labels are, have the least loss.
        answered: Whether outputs that are what the targets say have about the least loss.
        spread: Whether the loss spreads targets over outputs of another shape.
        unread: Whether the loss is the same whatever the targets are.
        reversed: The losses of right and of wrong answers, where the right ones have the larger.
        omitted: Classes that the loss leaves out though they are no filling, with their share of
            the targets.
        unpaired: Whether the gradient at the output is the same for every sample, whatever outputs
            and targets are, so that no sample is compared with a target of its own.
        evenly: Whether targets that are all the same are met where the last weight writes the same
            for every sample; that of a residual, whose data is put in behind it, does not.
        unheard: Whether outputs differ, and what the last weight writes has no part in them now:
            which of them are possible is then not known.
        held: Whether a loss of probabilities has some, though no operation was seen to hold them
            between 0 and 1: what they can be is then not known.
        large: Whether outputs are so many that the best ones were not searched for.
        adrift: Whether what is added to some columns of the output comes off the loss, the same at
            every sample and whatever outputs are, and nothing keeps outputs from growing so.
    """

    labels: Labels | None
    needs: Needs | None
    closing: str = ""
    alike: bool = True
    known: bool = False
    least: float = -math.inf
    most: float = math.inf
    constant: bool = False
    shares: bool = False
    now: float = math.nan
    silent: float = math.nan
    free: float = math.nan
    same: float = math.nan
    room: float = math.nan
    reach: float = math.nan
    undecided: float = 0.0
    labels_best: bool = False
    answered: bool = False
    spread: bool = False
    unread: bool = False
    reversed: tuple[float, float] | None = None
    omitted: tuple[tuple[int, float], ...] = ()
    unpaired: bool = False
    evenly: bool = False
    unheard: bool = False
    held: bool = False
    large: bool = False
    adrift: bool = False

    @property
    def over_constant(self) -> float:
        """The loss as it is over a constant's; nan where a constant fits, as it does one sample."""
        apart = self.same > 0 and self.same - self.free > self.room
        return max(self.now, 0.0) / self.same if apart else math.nan

    @property
    def beyond(self) -> float:
        """How far the least loss in reach is above the least, in steps to the best constant's."""
        room = self.same - self.free
        if not (room > 0 and math.isfinite(room) and math.isfinite(self.reach)):
            return math.nan
        return max(self.reach - self.free, 0.0) / room


def enough(loss: Loss, output: Tensor, targets: Any) -> tuple[Tensor, Any]:
    """Outputs and targets of samples that tell what a loss is: of all, or of some where many are.

    Args:
        loss: What compares outputs with targets; where it does not take fewer samples, all are.
        output: Of the model.
        targets: Theirs.

    Returns:
        Where the output has more than a million numbers, those of samples that have about as many,
        at least two, spread over all.
    """
    count = len(output) if output.ndim else 0
    fewer = max(2, count * LARGEST // max(output.numel(), 1))
    if not isinstance(targets, Tensor) or targets.shape[:1] != (count,) or fewer >= count:
        return output, targets
    rows = torch.linspace(0, count - 1, fewer).long()
    some = output.detach()[rows.to(output.device)], targets.detach()[rows.to(targets.device)]
    return some if math.isfinite(_loss_of(loss, *some)) else (output, targets)


def fit_of(subject: Subject, loss: Loss, targets: Tensor) -> TaskFit:
    """What outputs, targets and loss ask of one another.

    Cost: some hundred evaluations of the loss; where the output has more than a million numbers,
    some dozen on some of the samples (`enough`).
    """
    output = subject.output
    labels = labels_of(output, targets)
    few, theirs = enough(loss, output, targets)
    told = labels if few is output else labels_of(few, theirs)
    needs = needs_of(loss, few, theirs, told)
    # values of fewer numbers than the output, that a loss compares number by number
    spread = (
        needs is not None
        and targets.is_floating_point()
        and targets.numel() < output.numel()
        and targets.ndim == output.ndim
        and needs.coupling == "each"
        and not needs.indifferent
        and _is_even(loss, few, theirs)
    )
    known: dict[str, Any] = {"labels": labels, "needs": needs, "spread": spread}
    if targets_unread(loss, few, theirs):  # then nothing of them means anything
        known |= {"labels": None, "unread": True}
        labels = None
    else:
        known["omitted"] = omitted_classes(loss, output, targets, labels, subject.batch)
        known["reversed"] = reversed_loss(loss, few, theirs, told, needs)
        known["unpaired"] = is_unpaired(loss, few, theirs)
    known["large"] = output.numel() > LARGEST
    if known["large"] or not dense.is_finite(output):
        return TaskFit(**known)
    # the loss as it is, the least of all outputs, and that of one for all samples
    free, same = _ends(loss, output, targets, labels, needs)
    now = value_of(loss, output, targets)
    room = room_of(loss, output, targets, now)
    silent = _loss_of(loss, torch.zeros_like(output.detach()), targets)
    known |= {"now": now, "free": free, "same": same, "room": room}
    known["silent"] = silent if math.isfinite(silent) else math.nan
    known["labels_best"] = _labels_best(loss, targets, labels, free, same)
    known["answered"] = _is_answered(loss, output, targets, labels, free, same)
    ending = subject.tail
    if ending is None or needs is None:
        return TaskFit(**known, reach=free)
    start = bounded(ending)
    # whether the output differs within itself, and is the same whatever the last weight writes
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(ending.start.shape, generator=generator).to(ending.start)
    with torch.no_grad():
        made = [ending(size * drawn) for size in DRAWS]
    alone = bool((ending.output == ending.output.flatten()[:1]).all())
    if all(torch.equal(m, ending.output) for m in made) and not alone:
        return TaskFit(**known, reach=free, unheard=True)
    reach, best = free, None
    if ending.names or math.isfinite(ending.bound):
        starts = tail_starts(ending.start, output, labels)
        reach, best = least_loss(start, starts, targets, loss)
        reach = max(reach, free)
    alike = ending.start.numel() == output.numel()
    known |= {"reach": reach, "undecided": _undecided(best, labels), "alike": alike}
    if labels is not None and labels.distinct == 1 and ending.start.shape[:1] == output.shape[:1]:
        # the least loss where the last weight writes the same for every sample
        even = lambda row: start(row.expand(ending.start.shape))
        starts = [s[:1] for s in tail_starts(ending.start, output, labels)]
        if targets.is_floating_point() and targets.numel() == ending.start.numel():
            starts.append(targets.detach().to(ending.start).reshape(ending.start.shape)[:1])
        least = least_loss(even, starts, targets, loss)[0]
        known["evenly"] = least - reach <= ALMOST * max(now - reach, 0.0) + room
    possible = _possible(ending, start)
    inside = output.numel() >= SURELY and float(output.min()) >= 0 and float(output.max()) <= 1
    free_end = not ending.closing and not possible.get("shares")
    if needs.probabilities and inside and free_end:  # as of a mixture of sigmoids
        return TaskFit(**known, held=True)
    if possible.get("shares") and not ending.closing:  # these the search for the best did not hold
        known["reach"] = math.nan
    free_range = free_end and math.inf == possible.get("most") == -possible.get("least", 0.0)
    adrift = free_range and not needs.logarithms and _is_adrift(loss, few, theirs)
    return TaskFit(**known, **possible, known=True, closing=ending.closing, adrift=adrift)


def _is_adrift(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether what is added to some columns of all outputs comes off the loss, wherever they are.

    So it is where scores of parts are taken for logarithms of their shares: those would have to add
    up to one. Columns of a kind lie side by side. Every sample falls by the same: scores that are
    weighted, as of a critic, fall at some and rise at others.
    """
    start = output.detach()
    slope, here = _slope_of(loss, start, targets), _loss_of(loss, start, targets)
    if slope is None or slope.ndim != 2:
        return False
    count, width = slope.shape
    for parts in (p for p in PARTS if width % p == 0):
        for way in torch.eye(parts).repeat_interleave(width // parts, 1).to(output):
            each = slope @ way
            fall = -float(each.mean())
            if not fall > 0 or float((each + fall).abs().max()) > ALMOST * fall:
                continue
            lost = ((far, here - _loss_of(loss, start + far * way, targets)) for far in ADDED)
            due = fall * count  # what comes off for one
            if all(abs(fallen - far * due) <= ALMOST * abs(far * due) for far, fallen in lost):
                return True
    return False


def _is_answered(
    loss: Loss,
    output: Tensor,
    targets: Tensor,
    labels: Labels | None,
    free: float,
    same: float,
) -> bool:
    """Whether outputs that are what the targets say, certain in any degree, are about the best.

    They are not where a loss weighs what was done by what it earned: the best outputs are then not
    what targets say.
    """
    made: list[Tensor] = []
    if labels is not None and labels.wanted is not None and labels.wanted.shape == output.shape:
        right = labels.wanted.to(output)
        share = right if right.shape[labels.dim] == 1 else right / right.sum(labels.dim, True)
        made = [right, (1 - 2 * ALMOST) * right + ALMOST, (share + 1e-30).log()]
        made += [size * (2 * right - 1) for size in (1.0, 2.0, 4.0, 30.0)]
    elif labels is not None and targets.numel() == output.numel():
        made = [targets.reshape(output.shape).to(output)]
        if bool((made[0] > 0).all()):
            made += [made[0].log()]
    found = [v for o in made if math.isfinite(v := _loss_of(loss, o, targets))]
    return bool(found) and min(found) - free <= NEARLY * (same - free)


def least_losses(loss: Loss, output: Tensor, targets: Tensor) -> tuple[float, float]:
    """The least loss of all outputs, and that of one output for all samples.

    Args:
        loss: What compares outputs with targets.
        output: Of the model, of which only the form matters, and where the search begins.
        targets: Theirs.

    Cost: some hundred evaluations of the loss.
    """
    labels = labels_of(output, targets)
    return _ends(loss, output, targets, labels, needs_of(loss, output, targets, labels))


def _ends(
    loss: Loss, output: Tensor, targets: Tensor, labels: Labels | None, needs: Needs | None
) -> tuple[float, float]:
    """Of probabilities the least is searched for among these, where the loss takes no others.

    Or where outputs that are none have losses without end, as of a share that is a ratio of sums.
    """
    share = lambda o: o.clamp(0.0, 1.0)
    starts = free_starts(output, targets, labels)

    def both(within: Callable[[Tensor], Tensor]) -> tuple[float, float]:
        constant = constant_loss(output, targets, loss, within)
        return least_loss(within, starts, targets, loss)[0], constant

    if needs is not None and needs.probabilities:
        return both(share)[0], constant_loss(output, targets, loss)
    found = both(domain_of(output))
    shares = dense.is_finite(output) and float(output.min()) >= 0 and float(output.max()) <= 1
    now = _loss_of(loss, output, targets)
    endless = math.isfinite(now) and min(found) < now - UNBOUNDED * (1 + abs(now))
    return both(share) if shares and endless else found


def _labels_best(
    loss: Loss, targets: Tensor, labels: Labels | None, free: float, same: float
) -> bool:
    """Whether outputs of 0 and 1, as the labels are, have the least loss."""
    if labels is None or labels.wanted is None:
        return False
    try:
        there = value_of(loss, labels.wanted.to(torch.get_default_dtype()), targets)
    except Exception:  # noqa: BLE001 (a loss may raise anything)
        return False
    return abs(there - free) <= 1e-3 * (same - free)


def value_of(loss: Loss, output: Tensor, targets: Tensor) -> float:
    """The loss of an output."""
    with torch.no_grad():
        return float(loss(output.detach(), targets))


def bounded(ending: Tail) -> Callable[[Tensor], Tensor]:
    """The operations behind the last weight, of what it can write."""
    if math.isfinite(ending.bound):
        return lambda start: ending(ending.bound * start.tanh())
    return ending


def _loss_of(loss: Loss, output: Tensor, targets: Any) -> float:
    """Of outputs that are made up; nan where it raises."""
    try:
        with random_states():
            return value_of(loss, output, targets)
    except Exception:  # noqa: BLE001 (a loss may raise anything of what is made up)
        return math.nan


def _slope_of(loss: Loss, output: Tensor, targets: Any) -> Tensor | None:
    """Of the loss by outputs that are made up; None where it raises or has none."""
    at = output.detach().clone().requires_grad_()
    try:
        with random_states(), torch.enable_grad():
            (slope,) = torch.autograd.grad(loss(at, targets), [at])
    except Exception:  # noqa: BLE001 (a loss may raise anything of what is made up)
        return None
    return slope


def is_endless(loss: Loss, output: Tensor, targets: Any) -> bool:
    """Whether a loss falls without end, and faster than outputs grow.

    Outputs are moved ever farther, along the gradient and at random; all samples, and those alone
    of which the loss goes on to fall; all columns, and those alone that are no probabilities, which
    a loss may take nothing else for. That of what is maximised,
    as a squared error with the wrong sign, falls with the square of how far they went; one of
    scores that are weighted, as a policy's or a critic's, no faster than they go.

    Args:
        loss: What compares outputs with targets.
        output: Of the model.
        targets: Theirs.

    Cost: a dozen evaluations of the loss, and two gradients.
    """
    output, targets = enough(loss, output, targets)
    now, slope = _loss_of(loss, output, targets), _slope_of(loss, output, targets)
    if not math.isfinite(now) or slope is None:
        return False
    if not dense.is_finite(output) or not dense.is_finite(slope):
        return False
    base = output.detach()
    unit = max(1.0, _rms(base))
    noise = torch.randn(base.shape, generator=torch.Generator().manual_seed(0)).to(base)
    ways = [-slope, noise]
    if base.ndim > 1 and (steepness := _rms(slope)) > 0:
        # samples of which the loss goes on to fall: that of others may rise as fast for them
        there = _slope_of(loss, base - FAR[2] * unit / steepness * slope, targets)
        if there is not None:
            fall = ((there * slope).flatten(1).sum(1) > 0).to(base)
            some = -slope * fall.reshape(-1, *[1] * (base.ndim - 1))
            ways += [some] if bool(fall.any()) and not bool(fall.all()) else []
    if base.ndim == 2 and base.shape[1] > 1:
        free = ((base < 0) | (base > 1)).any(0).to(base)
        ways += [way * free for way in ways if bool(free.any()) and not bool(free.all())]
    for way in ways:
        size = _rms(way)
        if not size > 0 or not math.isfinite(size):
            continue
        step = way * (unit / size)
        # so far from any outputs minus infinity is a value, and what is no number tells nothing
        reached = [_loss_of(loss, base + far * step, targets) for far in FAR]
        fallen = [now - (math.inf if math.isnan(v) else v) for v in reached]
        steep = [0 < STEEPER * a < b and b > 10 * abs(now) for a, b in pairwise(fallen)]
        if any(map(all, pairwise(steep))) or (any(steep) and fallen[-1] == math.inf):
            return True
    return False


def _rms(t: Tensor) -> float:
    return float(t.double().square().mean().sqrt())


def is_unpaired(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether the gradient is the same for every sample, as where errors are averaged first.

    Outputs are drawn of many sizes, those of the targets among them: an absolute error has the same
    slope at all samples while outputs are far below all targets.

    Args:
        loss: What compares outputs with targets.
        output: Of the model, of which only the form matters.
        targets: Theirs; where all are the same, there is nothing to tell apart.
    """
    count = len(output) if output.ndim else 0
    if (
        count < 2
        or not targets.ndim
        or len(targets) != count
        or bool((targets == targets[:1]).all())
    ):
        return False
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    sizes = [*DRAWS]
    if targets.is_floating_point():
        sizes.append(3.0 * _rms(targets.detach()))
    sloped = 0
    for size in sizes:
        slope = _slope_of(loss, size * drawn, targets)
        if slope is None or not bool(slope.isfinite().all()) or not bool(slope.any()):
            continue
        sloped += 1
        if float((slope - slope[:1]).abs().max()) > SAME * float(slope.abs().max()):
            return False
    return sloped > 1


def targets_unread(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether a loss is the same to the last bit whatever the targets are, as of contrastive ones.

    Args:
        loss: What compares outputs with targets.
        output: Of the model.
        targets: Theirs.
    """
    now = _loss_of(loss, output, targets)
    others = [targets.roll(1, 0), targets.flip(0), torch.zeros_like(targets)]
    others += [targets + 0.37, 1 - targets] if targets.is_floating_point() else [
        torch.where(targets > 0, targets - 1, targets + 1)
    ]  # fmt: skip
    others = [t for t in others if not torch.equal(t, targets)]
    return math.isfinite(now) and all(_loss_of(loss, output, t) == now for t in others)


def reversed_loss(
    loss: Loss, output: Tensor, targets: Tensor, labels: Labels | None, needs: Needs | None
) -> tuple[float, float] | None:
    """The losses of right and of wrong answers, where the right ones have the larger.

    Args:
        loss: What compares outputs with targets.
        output: Of the model.
        targets: Theirs.
        labels: What they are.
        needs: What the loss asks of outputs.
    """
    base = output.detach()
    if labels is None or not _are_scores(loss, output, targets, labels):
        return _told(loss, targets, _together_and_apart(base, targets))
    pairs: list[tuple[Tensor, Tensor]] = []
    if labels.wanted is not None and labels.wanted.shape == base.shape:
        right = labels.wanted.to(base)
        if not bool(right.any()) or bool(right.all()):
            return None
        wrong = right.roll(1, labels.dim) if labels.exclusive else 1 - right
        share = lambda w: (1 - SURE) + (2 * SURE - 1) * w
        pairs = [(share(right), share(wrong))]
        within = float(base.min()) >= 0 and float(base.max()) <= 1
        if not within and not (needs is not None and needs.probabilities):
            pairs.append((OUTSIDE * (2 * right - 1), OUTSIDE * (2 * wrong - 1)))
    elif labels.kind == "values" and targets.ndim == base.ndim and len(targets) == len(base):
        if not all(own in (1, wide) for own, wide in zip(targets.shape, base.shape, strict=True)):
            return None
        right = targets.to(base).expand_as(base)  # quantiles are several columns for one target
        spread = right.std() if right.numel() > 1 else right.abs().mean()
        noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(0)).to(right)
        # either way: a loss that is linear in the output falls along one of them
        sizes = (0.3, 1.0, 10.0, 100.0)  # where near ones are to differ, far ones are to be near
        pairs = [(right, right + size * spread * noise) for s in sizes for size in (s, -s)]
    return _told(loss, targets, pairs)


def _together_and_apart(base: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Embeddings in which samples of a class lie together, and the same of other samples."""
    whole = not targets.is_floating_point() and targets.shape == base.shape[:1]
    classes, ids = targets.unique(return_inverse=True) if whole else (targets, targets)
    if not whole or base.ndim != 2 or base.shape[1] < 2 or not 1 < len(classes) <= len(base) / 2:
        return []
    g = torch.Generator().manual_seed(0)
    drawn = lambda *shape: torch.randn(*shape, generator=g).to(base)
    found = list[tuple[Tensor, Tensor]]()
    for _ in range(DRAWN):
        rows = drawn(len(classes), base.shape[1])[ids.to(base.device)] + 0.05 * drawn(*base.shape)
        found.append((rows, rows[torch.randperm(len(rows), generator=g).to(base.device)]))
    return found


def _told(
    loss: Loss, targets: Tensor, pairs: list[tuple[Tensor, Tensor]]
) -> tuple[float, float] | None:
    """The first losses of right and of wrong answers, if the right ones are always larger."""
    found = [(_loss_of(loss, a, targets), _loss_of(loss, b, targets)) for a, b in pairs]
    known = [pair for pair in found if all(map(math.isfinite, pair))]
    if not known or not all(a > b + 1e-3 * max(abs(a), abs(b), 1e-12) for a, b in known):
        return None
    return known[0]


def _are_scores(loss: Loss, output: Tensor, targets: Tensor, labels: Labels) -> bool:
    """Whether the columns of an output are those of the classes that targets name by number.

    An output may have room for the classes and be none of them, as an embedding that a loss with
    weights of its own reads. Where all columns are the same, a loss of scores draws that of the
    label one way, for every sample the same, and none of the others that way, nor more strongly.
    """
    wanted = labels.wanted
    if labels.kind != "classes" or wanted is None or wanted.shape[labels.dim] < 2:
        return True
    k = wanted.shape[labels.dim]
    holds = wanted.movedim(labels.dim, -1).to(output.device)
    for even in (0.0, 1 / k, -math.log(k)):
        slope = _slope_of(loss, torch.full_like(output, even), targets)
        if slope is None or not bool(slope.isfinite().all()):
            continue
        slope = slope.movedim(labels.dim, -1)
        counted = holds.any(-1) & (slope != 0).any(-1)
        rows, at = slope[counted], holds[counted]
        if not len(rows):
            continue
        label, others = rows[at], rows[~at].view(len(rows), k - 1)
        room = 1e-3 * label.abs()
        way = label[0].sign()
        one_way = bool((label * way > 0).all())
        apart = bool(((others * way).amax(-1) <= room).all())
        if one_way and apart and bool((others.abs().amax(-1) <= label.abs() + room).all()):
            return True
    return False


def omitted_classes(
    loss: Loss, output: Tensor, targets: Tensor, labels: Labels | None, batch: Any
) -> tuple[tuple[int, float], ...]:
    """Classes whose outputs have no part in a loss, though they are answers and no filling.

    Filling stands where the inputs are one token that they are nowhere else, or fills the ends of
    rows.

    Args:
        loss: What compares outputs with targets.
        output: Of the model.
        targets: Classes.
        labels: What they are.
        batch: What the model read.

    Returns:
        Each with its share of the targets.
    """
    if labels is None or labels.kind != "classes" or labels.wanted is None:
        return ()
    drawn = 3 * torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    ids = targets.detach().cpu()
    heard = torch.zeros(ids.shape, dtype=torch.bool)
    made = (  # made when it is their turn, which is seldom
        lambda: drawn,
        lambda: drawn.softmax(labels.dim),
        lambda: drawn.log_softmax(labels.dim),
        output.detach,
    )
    for make in made:
        slope = _slope_of(loss, make(), targets)
        if slope is None:
            return ()
        moved = (slope.movedim(labels.dim, -1) != 0).any(-1).cpu()
        if moved.shape != ids.shape:
            return ()
        heard |= moved
        if bool(heard.all()):
            return ()
    if not bool(heard.any()):
        return ()
    scores = output.shape[labels.dim]
    found: list[tuple[int, float]] = []
    for c in ids.unique().tolist():
        rows = ids == c
        inside = c != IGNORED and 0 <= c < scores
        if inside and not bool(heard[rows].any()) and not _is_filling(rows, batch):
            found.append((int(c), rows.double().mean().item()))
    return tuple(found)


def _is_filling(rows: Tensor, batch: Any) -> bool:
    """Whether some places of a batch are filled up: ends of rows, or by a token of its own."""
    if rows.ndim < 2 or bool(rows.all()):
        return False
    if rows.ndim == 2 and bool((rows[:, 1:] >= rows[:, :-1]).all()):
        return True
    for read in tensors(batch):
        if read.shape == rows.shape and not read.is_floating_point():
            filled = read.cpu()[rows].unique()
            others = read.cpu()[~rows]
            if len(filled) == 1 and not bool((others == filled[0]).any()):
                return True
    return False


def _is_even(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether a loss treats the columns of an output alike; means beside variances it does not."""
    made = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    try:
        one, other = (value_of(loss, o, targets) for o in (made, made.flip(-1)))
    except Exception:  # noqa: BLE001 (a loss may raise anything of outputs that are made up)
        return False
    return abs(one - other) <= SAME * max(abs(one), 1.0) * 100


def _possible(ending: Tail, start: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """The range of outputs, whether it is one point, and whether rows sum to one."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(ending.start.shape, generator=generator).to(ending.start)
    with torch.no_grad():
        made = [start(size * drawn) for size in DRAWS]
    ends = [(float(m[m.isfinite()].min()), float(m[m.isfinite()].max()))
            for m in made if bool(m.isfinite().any())]  # fmt: skip
    if len(ends) < len(DRAWS):
        return {}
    size = max(abs(end) for end in ends[0])
    constant = all(float((m - made[0]).abs().max()) <= SAME * size for m in made)
    found = {
        "least": _end([-low for low, _ in ends], -1.0),
        "most": _end([high for _, high in ends], 1.0),
        "constant": constant and bool((made[0] == made[0].flatten()[0]).all()),
        "shares": _sum_to_one(made[0]) and not constant,
    }
    # a last weight may be read with others, as in a mixture of softmaxes: rows that sum to one as
    # the model is do so by what it is
    now = ending.output.detach().double()
    if _sum_to_one(now) and float(now.min()) >= 0 and not constant:
        found |= {"least": 0.0, "most": 1.0, "shares": True}
    elif _sum_to_one(now.exp()):
        found["most"] = min(found["most"], 0.0)
    return found


def _sum_to_one(rows: Tensor) -> bool:
    if rows.ndim < 2 or rows.shape[-1] < 2:
        return False
    return bool(((rows.sum(-1) - 1).abs() < 1e-4).all())


def _end(reached: list[float], sign: float) -> float:
    """An end of the range; infinite where it goes on to grow."""
    grown = reached[-1] > GROWS * max(reached[-2], 1.0)
    return sign * math.inf if grown else sign * max(reached)


def _undecided(best: Tensor | None, labels: Labels | None) -> float:
    if best is None or labels is None or labels.wanted is None:
        return 0.0
    wanted = labels.wanted
    if wanted.shape[labels.dim] > 1 and labels.exclusive:
        wrong = best.argmax(labels.dim) != wanted.to(best).argmax(labels.dim)
        rows = wrong if labels.counted is None else wrong[labels.counted.to(wrong.device)]
        return rows.double().mean().item()
    if not bool(wanted.any()) or bool(wanted.all()):
        return 0.0
    return 0.0 if float(best[wanted].mean()) > float(best[~wanted].mean()) + SAME else 1.0

"""Whether what a model can put out, its targets and its loss suit one another."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.samples import Loss
from sigmascope.probes.structure import Tail
from sigmascope.survey.task.infima import (
    constant_loss,
    domain_of,
    free_starts,
    least_loss,
    room_of,
    tail_starts,
)
from sigmascope.survey.task.labels import Labels, labels_of
from sigmascope.survey.task.losses import Needs, needs_of

LARGEST = 10**6  # numbers of the output, beyond which the best outputs are not searched for
DRAWS = (1.0, 10.0, 1e2, 1e4)  # sizes of what the last weight may write
GROWS = 10.0  # times, from the third of these to the last: then there is no end
SAME = 1e-6


@dataclass(frozen=True, slots=True)
class Fit:
    """What was seen of outputs, targets and loss together.

    Attributes:
        labels: What the targets are; None where shapes do not tell.
        needs: What the loss asks of outputs; None where it bears none that were made up.
        closing: The last operation behind the last weight; empty where there is none.
        known: Whether the operations behind the last weight could be run by themselves.
        least: Outputs that the model can have are not below this.
        most: Nor above this.
        constant: Whether they are the same, whatever the weights.
        shares: Whether each row of them sums to one.
        now: The loss as it is.
        free: The least loss of any output.
        same: The least loss of one output for all samples.
        room: By how much losses differ that are told apart.
        reach: The least loss of outputs that the model can have.
        undecided: Share of the rows whose class is wrong even there.
        labels_best: Whether outputs of 0 and 1, as the labels are, have the least loss.
        spread: Whether the loss spreads targets over outputs of another shape.
        unheard: Whether outputs differ, and what the last weight writes has no part in them now:
            which of them are possible is then not known.
    """

    labels: Labels | None
    needs: Needs | None
    closing: str = ""
    known: bool = False
    least: float = -math.inf
    most: float = math.inf
    constant: bool = False
    shares: bool = False
    now: float = math.nan
    free: float = math.nan
    same: float = math.nan
    room: float = math.nan
    reach: float = math.nan
    undecided: float = 0.0
    labels_best: bool = False
    spread: bool = False
    unheard: bool = False

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


def fit_of(subject: Subject, loss: Loss, targets: Tensor) -> Fit:
    """What outputs, targets and loss ask of one another.

    Cost: some hundred evaluations of the loss.
    """
    output = subject.output
    labels = labels_of(output, targets)
    needs = needs_of(loss, output, targets, labels)
    spread = needs is not None and _is_spread(output, targets, needs)
    spread = spread and _is_even(loss, output, targets)
    known: dict[str, Any] = {"labels": labels, "needs": needs, "spread": spread}
    if output.numel() > LARGEST or not sums.is_finite(output):
        return Fit(**known)
    known |= _least(loss, output, targets, labels, needs)
    ending = subject.tail
    if ending is None:
        return Fit(**known, reach=known["free"])
    start = bounded(ending)
    if _is_unheard(ending):
        return Fit(**known, reach=known["free"], unheard=True)
    reach, best = known["free"], None
    if ending.names or math.isfinite(ending.bound):
        starts = tail_starts(ending.start, output, labels)
        reach, best = least_loss(start, starts, targets, loss)
        reach = max(reach, known["free"])
    known |= {"reach": reach, "undecided": _undecided(best, labels)}
    return Fit(**known, **_possible(ending, start), known=True, closing=ending.closing)


def _least(
    loss: Loss, output: Tensor, targets: Tensor, labels: Labels | None, needs: Needs | None
) -> dict[str, Any]:
    """The loss as it is, the least of all outputs, and that of one for all samples."""
    free, same = _ends(loss, output, targets, labels, needs)
    now = value_of(loss, output, targets)
    room = room_of(loss, output, targets, now)
    known = {"now": now, "free": free, "same": same, "room": room}
    return known | {"labels_best": _labels_best(loss, targets, labels, known)}


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
    """Of probabilities the least is searched for among these, where the loss takes no others."""
    bounded = needs is not None and needs.probabilities
    within = (lambda o: o.clamp(0.0, 1.0)) if bounded else domain_of(output)
    free, _ = least_loss(within, free_starts(output, targets, labels), targets, loss)
    return free, constant_loss(output, targets, loss)


def _labels_best(loss: Loss, targets: Tensor, labels: Labels | None, known: dict[str, Any]) -> bool:
    """Whether outputs of 0 and 1, as the labels are, have the least loss."""
    if labels is None or labels.wanted is None:
        return False
    room = known["same"] - known["free"]
    try:
        there = value_of(loss, labels.wanted.to(torch.get_default_dtype()), targets)
    except Exception:  # noqa: BLE001 (a loss may raise anything)
        return False
    return abs(there - known["free"]) <= 1e-3 * room


def value_of(loss: Loss, output: Tensor, targets: Tensor) -> float:
    """The loss of an output."""
    with torch.no_grad():
        return float(loss(output.detach(), targets))


def bounded(ending: Tail) -> Callable[[Tensor], Tensor]:
    """The operations behind the last weight, of what it can write."""
    if math.isfinite(ending.bound):
        return lambda start: ending(ending.bound * start.tanh())
    return ending


def _is_unheard(ending: Tail) -> bool:
    """Whether the output differs within itself, and is the same whatever the last weight writes."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(ending.start.shape, generator=generator).to(ending.start)
    with torch.no_grad():
        made = [ending(size * drawn) for size in DRAWS]
    same = all(torch.equal(m, ending.output) for m in made)
    return same and not bool((ending.output == ending.output.flatten()[:1]).all())


def _is_spread(output: Tensor, targets: Tensor, needs: Needs) -> bool:
    """Values of fewer numbers than the output, that a loss compares number by number."""
    return (
        targets.is_floating_point()
        and targets.numel() < output.numel()
        and targets.ndim == output.ndim
        and needs.coupling == "none"
        and not needs.indifferent
    )


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
    sums = made[0].sum(-1) if made[0].ndim > 1 and made[0].shape[-1] > 1 else None
    return {
        "least": _end([-low for low, _ in ends], -1.0),
        "most": _end([high for _, high in ends], 1.0),
        "constant": constant and bool((made[0] == made[0].flatten()[0]).all()),
        "shares": sums is not None and bool(((sums - 1).abs() < 1e-4).all()) and not constant,
    }


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

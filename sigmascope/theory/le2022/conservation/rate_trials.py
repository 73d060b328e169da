"""The rates of balances along a gradient, told from what rounding makes of them.

A rate is divided by the sizes of its terms. Where these have cancelled themselves, as at a
stationary point, under a saturated softmax or behind a normaliser, what is left of both is rounding
and their ratio says nothing. So a rate that is not zero is measured again: with gradients that do
not cancel, next to what single samples contribute, and with parameters that are changed by a few
units in the last place: what moves then is rounding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import torch

from sigmascope.probes import Subject
from sigmascope.probes.symmetry import Pull, StillSum, trial_gradients
from sigmascope.theory.le2022.conservation.invariants import Invariant, Tensors, claims

ROUNDINGS = 1e3  # of the working precision that a rate of zero may differ by, relatively
MOST = 0.05  # the same in half precision, where that would say nothing
NUDGES = 4.0  # of the working precision that parameters are changed by, to see what is rounding
CANCELLED = 1e-2  # share of its contributions below which a gradient tells nothing of a balance
NOISES = 16.0  # times what such a change moves a rate by that rounding may have moved it by


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """A gradient that the rates of balances are measured with.

    Attributes:
        parameters: Those that are trained, by name.
        gradients: Of a loss, or of a sum of the outputs.
        others: The same after changes of the parameters by rounding; none where a rate is within
            its tolerance without them.
        contributions: The same with a random sign for what each sample contributes: as large as
            what was added up, where it cancels. None as for `others`.
        precision: Of the parameters.
    """

    parameters: Tensors
    gradients: Tensors
    others: tuple[Tensors, ...]
    contributions: Tensors | None
    precision: float

    @classmethod
    def of(cls, subject: Subject, pull: Pull, *, nudged: int = 0) -> "Trial":
        """Of a model and a batch.

        Args:
            subject: With its targets and loss.
            pull: As for `probes.symmetry.trial_gradients`.
            nudged: How many runs with changed parameters.
        """
        parameters = {n: p for n, p in subject.model.named_parameters() if p.requires_grad}
        precision = max(torch.finfo(p.dtype).eps for p in parameters.values())
        run = partial(
            trial_gradients,
            subject.model,
            subject.batch,
            targets=subject.targets,
            loss=subject.loss,
            pull=pull,
        )
        others = tuple(dict(run(nudge=k * NUDGES * precision)) for k in range(1, nudged + 1))
        contributions = dict(run(signs=subject.count)) if nudged else None
        return cls(parameters, dict(run()), others, contributions, precision)

    def measure(self, claim: Invariant) -> Invariant:
        """The claim with its rate, and what rounding may have made of it."""
        size = self._size(claim, self.gradients)
        left = 1.0  # share of what was added up that has not cancelled
        if self.contributions is not None:
            whole = max(size, self._size(claim, self.contributions))
            left, size = (size / whole if whole > 0 else 1.0), whole
        if size == 0 or self._vanishes(claim):
            return replace(claim, rate=0.0, exactness=0.0, noise=math.inf)
        rate = self._rate(claim, self.gradients) / size
        if not math.isfinite(rate) or not math.isfinite(size):
            return replace(claim, rate=math.inf, exactness=0.0, noise=math.inf)
        moved = [
            self._rate(claim, {n: g - self.gradients[n] for n, g in other.items()})
            for other in self.others
        ]
        exactness = min(ROUNDINGS * self.precision, MOST)
        noise = NOISES * max(moved, default=0.0) / size if left > CANCELLED else math.inf
        return replace(claim, rate=rate, exactness=exactness, noise=noise)

    def _vanishes(self, claim: Invariant) -> bool:
        """Whether the gradient is so small that parts of it are lost to underflow."""
        found = [self.gradients[n] for n in claim.tensors if n in self.gradients]
        least = max(torch.finfo(p.dtype).tiny for p in self.parameters.values())
        return max((float(g.abs().max()) for g in found), default=0.0) < least / self.precision

    def _rate(self, claim: Invariant, gradients: Tensors) -> float:
        return float(claim.change(self.parameters, gradients).abs().max())

    def _size(self, claim: Invariant, gradients: Tensors) -> float:
        """The largest sum of the terms of the rate; of a sum, of the largest gradient of all."""
        if isinstance(claim.what, StillSum):
            return max(float(g.abs().max()) for g in gradients.values()) * claim.what.terms
        return 2 * claim.size(self.parameters, gradients)


def judged(subject: Subject, claimed: Sequence[Invariant]) -> list[Invariant]:
    """Claims, those whose rates are not zero with gradients of which it is known what is rounding.

    Where training has converged, the gradient of the loss is what rounding left of contributions
    that cancel; another weight for every sample, or another sum of the outputs, keeps them apart. A
    claim is broken if it is for every gradient that can be told from rounding.
    """
    plain = Trial.of(subject, "loss")
    measured = [plain.measure(claim) for claim in claimed]
    if all(map(_settled, measured)):
        return measured
    pulls: list[Pull] = ["loss"] if subject.loss is None else ["loss", "reweighted", "random"]
    trials: dict[Pull, Trial] = {pull: Trial.of(subject, pull, nudged=2) for pull in pulls}
    free = Subject(subject.model, subject.batch).symmetries if subject.loss is not None else None
    of_any_loss = None if free is None else {_key(c) for c in claims(free)}
    return [c if _settled(c) else _chosen(c, trials, of_any_loss) for c in measured]


def _settled(claim: Invariant) -> bool:
    """Whether the gradient of the loss says that it is kept."""
    return math.isfinite(claim.noise) and claim.rate <= claim.tolerance


def _chosen(
    claim: Invariant, trials: Mapping[Pull, Trial], of_any_loss: set[Any] | None
) -> Invariant:
    """The measurement that tells most of a claim."""
    found = [
        trial.measure(claim)
        for pull, trial in trials.items()
        if pull != "random" or of_any_loss is None or _key(claim) in of_any_loss
    ]
    telling = [i for i in found if i.noise < MOST]
    kept = [i for i in telling if i.rate <= i.tolerance]
    if kept or telling:
        best = min(kept or telling, key=lambda i: i.noise)
        # a unit that hardly varies is scaled by eps alone, whatever the share of eps elsewhere
        off = not kept and claim.kind == "norm" and claim.slack > 0
        return replace(best, noise=math.inf) if off else best
    # nothing but rounding, of which nothing can be told; or no gradient at all, and no rate
    return replace(found[0], noise=math.inf if any(i.rate for i in found) else 0.0)


def _key(claim: Invariant) -> tuple[Any, ...]:
    return claim.kind, claim.tensors, claim.count

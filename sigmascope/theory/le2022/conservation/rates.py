"""The rate of every balance along gradient flow, measured on one batch."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import nn

from sigmascope.core.guard import door
from sigmascope.core.records import Assumption, Estimate, Shown
from sigmascope.models import Subject
from sigmascope.models.gradients import Pull, trial_gradients
from sigmascope.models.samples import Batch, Loss
from sigmascope.theory.bounds import ANY, OfModels
from sigmascope.theory.le2022.conservation.invariants import SOURCE, Invariant, Tensors, claims
from sigmascope.theory.symmetry import Fixed, StillSum, symmetries_of

# ------------------------------------------------------------------------------
# The rates of balances along a gradient, told from what rounding makes of them.
#
# A rate is divided by the sizes of its terms. Where these have cancelled themselves, as at a
# stationary point, under a saturated softmax or behind a normaliser, what is left of both is
# rounding and their ratio says nothing. So a rate that is not zero is measured again: with
# gradients that do not cancel, next to what single samples contribute, and with parameters that are
# changed by a few units in the last place: what moves then is rounding.


ROUNDINGS = 1e3  # of the working precision that a rate of zero may differ by, relatively
MOST = 0.05  # the same in half precision, where that would say nothing
NUDGES = 4.0  # of the working precision that parameters are changed by, to see what is rounding
CANCELLED = 1e-2  # share of its contributions below which a gradient tells nothing of a balance
NOISES = 16.0  # times what such a change moves a rate by that rounding may have moved it by


@final
@dataclass(frozen=True, slots=True)
class TrialGradient:
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
    def of(cls, subject: Subject, pull: Pull, *, nudged: int = 0) -> "TrialGradient":
        """Of a model and a batch.

        Args:
            subject: With its targets and loss.
            pull: As for `models.gradients.trial_gradients`.
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
        # a gradient so small that parts of it are lost to underflow
        reach = [float(self.gradients[n].abs().max()) for n in claim.tensors if n in self.gradients]
        least = max(torch.finfo(p.dtype).tiny for p in self.parameters.values())
        if size == 0 or max(reach, default=0.0) < least / self.precision:
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
    plain = TrialGradient.of(subject, "loss")
    measured = [plain.measure(claim) for claim in claimed]
    if all(map(_settled, measured)):
        return measured
    pulls: list[Pull] = ["loss"] if subject.loss is None else ["loss", "reweighted", "random"]
    trials: dict[Pull, TrialGradient] = {
        pull: TrialGradient.of(subject, pull, nudged=2) for pull in pulls
    }
    free = (
        symmetries_of(Subject(subject.model, subject.batch)) if subject.loss is not None else None
    )
    of_any_loss = None if free is None else {_key(c) for c in claims(free)}
    # of each claim the measurement that tells most
    chosen: list[Invariant] = []
    for claim in measured:
        if _settled(claim):
            chosen.append(claim)
            continue
        found = [
            trial.measure(claim)
            for pull, trial in trials.items()
            if pull != "random" or of_any_loss is None or _key(claim) in of_any_loss
        ]
        telling = [i for i in found if i.noise < MOST]
        kept = [i for i in telling if i.rate <= i.tolerance]
        if telling:
            best = min(kept or telling, key=lambda i: i.noise)
            # a unit that hardly varies is scaled by eps alone, whatever the share of eps elsewhere
            off = not kept and claim.kind == "norm" and claim.slack > 0
            chosen.append(replace(best, noise=math.inf) if off else best)
        else:
            # nothing but rounding, of which nothing can be told; or no gradient at all, and no rate
            noise = math.inf if any(i.rate for i in found) else 0.0
            chosen.append(replace(found[0], noise=noise))
    return chosen


def _settled(claim: Invariant) -> bool:
    """Whether the gradient of the loss says that it is kept."""
    return math.isfinite(claim.noise) and claim.rate <= claim.tolerance


def _key(claim: Invariant) -> tuple[Any, ...]:
    return claim.kind, claim.tensors, claim.count


# ------------------------------------------------------------------------------
# What training conserves in a network, what it does not, and why.


@final
@dataclass(frozen=True, slots=True, repr=False)
class Conserved(Shown):
    """What training conserves in a network, what it does not, and why.

    Attributes:
        invariants: Each measured on the example.
        broken: What the forward pass promises and the backward pass does not keep: a wrong custom
            backward, or a part of the network that is detached.
        fixed: Rows, columns and entries of parameters that are in no balance, with the reason.
    """

    invariants: tuple[Invariant, ...]
    broken: tuple[Invariant, ...]
    fixed: tuple[Fixed, ...]

    @classmethod
    def of(cls, subject: Subject) -> "Conserved":
        """Of what is being studied."""
        found = symmetries_of(subject)
        measured = judged(subject, claims(found))
        return cls(
            tuple(i for i in measured if i.rate <= i.tolerance),
            tuple(i for i in measured if not i.rate <= i.tolerance),
            found.fixed,
        )


def invariants(
    model: nn.Module, example: Batch, *, targets: Any = None, loss: Loss | None = None
) -> tuple[Invariant, ...]:
    """What gradient flow conserves in a network.

    Args:
        model: Left as it was found.
        example: A batch; pairs of units are listed where their activation patterns agree on it.
        targets: What `loss` compares the output with.
        loss: Followed too if given: under a softmax the last layer's column sums are conserved.

    Raises:
        Refusal: If the model cannot be run on the example, or nothing of it is trained.

    Source:
        Le & Jegelka 2022, Lemmas 2 and 3 and Theorem 1.

    Cost: two forward passes and a backward pass; nine more of both where a rate is not zero.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> [i.tensors for i in invariants(net, torch.ones(2, 3)) if i.kind != "norm"]
        [('2.weight', '0.weight', '0.bias')]
    """
    return conserved(model, example, targets=targets, loss=loss).invariants


@door
def conserved(
    model: nn.Module, example: Batch, *, targets: Any = None, loss: Loss | None = None
) -> Conserved:
    """As `invariants`, with what is not conserved and why.

    Args:
        model: Left as it was found.
        example: A batch.
        targets: What `loss` compares the output with.
        loss: Followed too if given.

    Raises:
        Refusal: As for `invariants`.

    Source:
        Le & Jegelka 2022, Sec. 4.2.
    """
    return Conserved.of(Subject(model, example, targets, loss))


@final
@dataclass(frozen=True, slots=True)
class BalanceRate(OfModels):
    """What the forward pass makes conserved has no rate along the gradient that is computed.

    Violated, it shows a backward pass that is not the derivative of the forward pass.
    """

    name: ClassVar[str] = "balance-rate"
    source: ClassVar[str] = f"{SOURCE}, Lemmas 2 and 3, Theorem 1 (4)-(7)"
    statement: ClassVar[str] = "|dQ/dt| / size = 0 up to rounding, and the eps of normalisers"
    views: ClassVar[tuple[str, ...]] = ("balances",)

    site: str
    invariant: Invariant

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("units that are paired are active on the same samples of the batch", True),
            Assumption("every weight of a unit is trained, with one learning rate", True),
            Assumption(
                "the gradient can be told from rounding",
                True if math.isfinite(self.invariant.noise) else None,
            ),
        )

    def always(self) -> tuple[float, float]:
        # where no gradient reaches these weights, no backward pass could give them a rate
        return (0.0, 0.0) if self.invariant.exactness == 0 else ANY

    def measured(self) -> Estimate:
        return Estimate.exactly(self.invariant.rate, how="autograd")

    def limit(self) -> Estimate:
        exact = self.invariant.exactness
        high = self.invariant.tolerance  # rounding of the gradient and eps are no proof
        return Estimate(exact, exact, high, "rounding, and a normaliser's eps")

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["BalanceRate"]:
        if not any(p.requires_grad for p in subject.model.parameters()):
            return
        found = Conserved.of(subject)
        for invariant in (*found.invariants, *found.broken):
            yield cls(" ~ ".join(invariant.tensors), invariant)

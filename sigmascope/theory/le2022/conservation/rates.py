"""The rate of every balance along gradient flow, measured on one batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from sigmascope.probes import Subject
from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import ANY, OfModels
from sigmascope.theory.le2022.conservation.conserved_quantities import Conserved
from sigmascope.theory.le2022.conservation.invariants import SOURCE, Invariant


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

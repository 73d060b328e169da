"""Balances that gradient flow conserves, followed through the steps of training.

The identities of discrete steps are exact if no step is missed, so that a ledger is kept at each of
them, whatever that costs. Readings are taken as of any other probe.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Reading
from sigmascope.theory.le2022.conservation.ledger import Drift, Ledger
from sigmascope.theory.le2022.conservation.rates import conserved
from sigmascope.theory.le2022.ranks import SignRecord
from sigmascope.watching.hooks import removed
from sigmascope.watching.probes.base import Found, Probe, nothing
from sigmascope.watching.probes.sharpness import ProbeBatch


class Conservation(Probe):
    """Drift of every balance with a verdict, and signs that differ from those at the beginning.

    Args:
        model: The user's own module.
        probe: The examples on which balances are found, and signs of activations compared.
        blocks: Whether balances of pairs of units are followed too.

    Raises:
        Refusal: If the model cannot be measured on the batch.

    Source:
        Le & Jegelka 2022, Theorem 1 and Sec. 4.
    """

    name = "conservation"
    of_batch = "balances"
    share = 0.25
    first = 2

    def __init__(self, model: nn.Module, probe: ProbeBatch, *, blocks: bool) -> None:
        of = {"targets": probe.targets, "loss": probe.loss}
        found = conserved(model, probe.batch, **of)
        self._ledger = Ledger(model, found.invariants, blocks=blocks)
        self._model, self._probe, self._signs = model, probe, SignRecord()
        self._signs.look(model, probe.batch, step=0)
        self._handles = list[RemovableHandle]()
        self._lost: Exception | None = None  # a step, and with it all that the ledger would say
        self._found = list[Found]()

    def expected(self) -> float:
        return 0.05

    def follow(self, optimizers: Sequence[Optimizer]) -> None:
        """Hear of every step until `end`; hooks that come later hear of a step after this one."""
        self._ledger.resume(*optimizers)
        self._handles = [o.register_step_post_hook(self._stepped) for o in optimizers]

    def end(self) -> None:
        """Take the hooks away, from outside of any step."""
        removed(self._handles)

    def drifts(self) -> tuple[Drift, ...]:
        """Every balance, how far it has drifted and a verdict; none once a step was lost."""
        return () if self._lost else self._ledger.drifts()

    def local(self) -> Tensor:
        """Measured here: every process has the same weights and the same probe batch."""
        if self._lost:
            raise self._lost
        found: list[Found] = []
        for drift in self._ledger.drifts():
            size = Estimate.rounded(drift.drift, ulps=64)
            found.append(
                Reading(drift.site, q.BALANCE_DRIFT, size, "balances", drift.invariant.kind)
            )
            found.append(drift.check())
        signs = self._signs.look(self._model, self._probe.batch, step=self.step)
        for site, stability in signs.items():
            share = Estimate.exactly(stability.changed)
            found.append(Reading(site, q.SIGN_CHANGES, share, "balances"))
        self._found = found
        return nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        found, self._found = self._found, []
        yield from found

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        start = self.clock()
        try:
            if not self._lost:
                self._ledger.stepped(optimizer)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._lost = error
        self.beside += self.clock() - start


PROBE = Conservation

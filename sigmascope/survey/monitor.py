"""Measuring a model while it trains, in any loop."""

import os
from collections.abc import Collection, Iterator
from typing import Any, final

from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope import quantities as q
from sigmascope.gate import Closing, Refusal
from sigmascope.probes import Subject
from sigmascope.probes.samples import Batch, Loss
from sigmascope.records import Estimate, Reading
from sigmascope.store import Run
from sigmascope.survey.profiling import profile
from sigmascope.survey.views.balances import alignment_readings, rank_one_readings
from sigmascope.theory import le2022


@final
class Monitor(Closing):
    """Readings every so many steps of a training loop, on one batch that stays the same.

    At the first step and whenever it is due, the model is profiled; with the view `"balances"` the
    drift of every balance, signs that changed, ratios and alignments are read too. It keeps no
    thread and changes nothing in the loop.

    Args:
        model: What is trained.
        probe_batch: What it is measured on.
        every: Steps between readings.
        views: Which views to read.
        targets: For the loss of the probe batch.
        loss: `loss(output, targets)`.
        optimizers: Whose steps are followed, so that drifts get a verdict.
        blocks: Whether balances of pairs of units are followed too, and not only of each unit; in
            wide layers their products take several times as long as a step of training.
        run: A run file to which every reading is appended.

    Raises:
        Refusal: If the model cannot be measured on the batch.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> x, opt = torch.randn(5, 3), torch.optim.SGD(net.parameters(), lr=0.1)
        >>> with Monitor(net, x, every=10, views=["balances"], optimizers=[opt]) as monitor:
        ...     for _ in range(20):
        ...         opt.zero_grad()
        ...         net(x).square().mean().backward()
        ...         opt.step()
        ...         readings = monitor.step()
        >>> monitor.steps
        20
    """

    def __init__(
        self,
        model: nn.Module,
        probe_batch: Batch,
        *,
        every: int = 100,
        views: Collection[q.View] = ("representations", "weights", "balances"),
        targets: Any = None,
        loss: Loss | None = None,
        optimizers: Collection[Optimizer] = (),
        blocks: bool = False,
        run: str | os.PathLike[str] | None = None,
    ) -> None:
        if every < 1:
            raise Refusal(f"`every` must be 1 or more, got {every}. It is a number of steps.")
        self.steps = 0
        self._every = every
        self._views = tuple(views)
        self._of: dict[str, Any] = {"targets": targets, "loss": loss}
        self._model, self._batch = model, probe_batch
        self._ledger: le2022.conservation.Ledger | None = None
        if "balances" in self._views:
            found = le2022.conservation.conserved(model, probe_batch, **self._of)
            self._ledger = le2022.conservation.Ledger(model, found.invariants, blocks=blocks)
            self._signs = le2022.SignRecord()
        self._run = None if run is None else Run(run)
        if self._ledger is not None:  # last, so that a refusal leaves no hook behind
            self._ledger.watching(*optimizers)
        self._started = False

    def close(self) -> None:
        """Take hooks away and let go of the run file."""
        if self._ledger is not None:
            self._ledger.close()
        if self._run is not None:
            self._run.close()

    def step(self, loss: float | Tensor | None = None) -> tuple[Reading, ...]:
        """Count a step; readings when they are due, and after the first step.

        Args:
            loss: Of this step, to be filed with the readings.

        Returns:
            Every reading; none where they are not due.
        """
        self.steps += 1
        if self.steps % self._every and self._started:
            return ()
        self._started = True
        drifts = self.drifts()
        found = tuple(self._readings(loss, drifts))
        if self._run is not None:
            checks = tuple(d.check() for d in drifts)
            self._run.add(step=self.steps, readings=found, checks=checks)
        return found

    def drifts(self) -> tuple[le2022.conservation.Drift, ...]:
        """Every balance with its drift and a verdict; none without the view `"balances"`."""
        return () if self._ledger is None else self._ledger.drifts()

    def _readings(
        self, loss: float | Tensor | None, drifts: tuple[le2022.conservation.Drift, ...]
    ) -> Iterator[Reading]:
        if loss is not None:
            value = float(loss.detach()) if isinstance(loss, Tensor) else float(loss)
            yield Reading("(loss)", q.LOSS, Estimate.exactly(value), "gradients")
        others: list[q.View] = [v for v in self._views if v != "balances"]
        if others:
            yield from profile(self._model, self._batch, views=others, **self._of).readings
        if self._ledger is not None:
            for d in drifts:
                estimate = Estimate.rounded(d.drift, ulps=64)
                yield Reading(d.site, q.BALANCE_DRIFT, estimate, "balances", d.invariant.kind)
            subject = Subject(self._model, self._batch)
            yield from rank_one_readings(subject.weights)
            yield from alignment_readings(subject)
            looked = self._signs.look(self._model, self._batch, step=self.steps)
            for site, stability in looked.items():
                share = Estimate.exactly(stability.changed)
                yield Reading(site, q.SIGN_CHANGES, share, "balances")

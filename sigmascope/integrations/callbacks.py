"""What the callbacks of trainers share: a `Watch` that cannot stop the training it is in."""

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from sigmascope.core.guard import Refusal, printable
from sigmascope.core.store import Run
from sigmascope.integrations.names import alarms
from sigmascope.watching import ALARMS, Look, Watch

LOG = logging.getLogger("sigmascope")
OURS = frozenset({"model", "optimizers", "start"})  # keywords that a trainer's callback fills in


class LastLoss:
    """The loss since the last step of the optimizer, on the device where it is.

    A copy, by which a model that is copied or pickled takes it along, is empty.

    Attributes:
        summed: Whether the losses of the batches of a step are parts of one sum, not of a mean.
    """

    def __init__(self) -> None:
        self.summed = False
        self._total: Tensor | None = None
        self._batches = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), ())

    def add(self, loss: Tensor | float | None) -> None:
        """Count the loss of one batch; None is none."""
        if loss is None:
            return
        one = torch.as_tensor(loss).detach().mean()
        self._total = one.clone() if self._total is None else self._total + one
        self._batches += 1

    def take(self) -> Tensor | None:
        """The loss of the step that was made, None where none was seen; then count anew."""
        total, batches = self._total, self._batches
        self._total, self._batches = None, 0
        return total if total is None or self.summed else total / batches


@dataclass(frozen=True, slots=True)
class Logged:
    """A sink that hands alarms to a trainer's logger, 1 where one begins and 0 where it ends.

    Attributes:
        log: Called with the numbers by name, and the step.
    """

    log: Callable[[dict[str, float], int], object]

    def write(self, look: Look) -> None:
        """Log the alarms of a look that has some."""
        if look.findings:
            self.log(alarms(look), look.step)

    def close(self) -> None:
        """Nothing is held."""


class Watching:
    """A `Watch` from the start of training to its end; what fails in it is one line of the log.

    A copy, as in a checkpoint or another process, is not started, whatever this one is.

    Args:
        of: Keywords of `Watch`, those that the trainer knows aside.
        stop_on: Names of alarms that ask for the end of training.

    Raises:
        Refusal: If `Watch` knows no such keyword, or there is no such alarm.
    """

    def __init__(self, of: Mapping[str, Any], stop_on: Collection[str]) -> None:
        known = set(inspect.signature(Watch).parameters) - OURS
        if unknown := sorted(set(of) - known):
            raise Refusal(
                f"`SigmascopeCallback` takes the keywords of `Watch` ({', '.join(sorted(known))}), "
                f"got {', '.join(unknown)}. Leave out or rename what is not among them."
            )
        if isinstance(stop_on, str):
            raise Refusal(
                f"`stop_on` must be a collection of names of alarms, got {stop_on!r}. "
                f"Write `({stop_on!r},)`."
            )
        if unknown := sorted(set(stop_on) - {*ALARMS}):
            raise Refusal(
                f"`stop_on` must name alarms ({', '.join(ALARMS)}), got {printable(unknown[0])!r}. "
                "`docs/watching.md` says when each begins."
            )
        self.watch: Watch | None = None
        self.losses = LastLoss()
        self.hooks: list[RemovableHandle] = []
        self._of, self._stop_on = dict(of), frozenset(stop_on)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"watch": None, "hooks": []}

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep every error from the training; the watch is off after one."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (training goes on whatever fails here)
            said = printable(f"{type(error).__name__}: {error}")
            LOG.warning("sigmascope watches this training no more: %s", said)
            self.end()

    def begin(
        self,
        model: nn.Module,
        optimizers: Iterable[Optimizer],
        *,
        start: int | None,
        ranks: int,
        log: Callable[[dict[str, float], int], object],
    ) -> None:
        """Start at a step count, in the place of a watch that was not ended.

        Args:
            model: Without what data parallelism has put around it.
            optimizers: Whose steps are followed.
            start: Steps made before; None to go on after the last of the run file.
            ranks: How many processes train the model.
            log: What alarms are handed to.
        """
        self.end()
        self.losses.take()
        failed, run = True, self._of.get("run")
        with self.guarded():
            if run and not (distributed.get_rank() if _grouped() else 0):  # the one that writes
                Run(run).close()
            failed = False
        if _anywhere(failed):  # a watch asks all ranks, and would wait for one that has none
            return
        with self.guarded():
            sinks = (*self._of.get("sinks", ()), Logged(log))
            of: dict[str, Any] = {"together": ranks > 1 or None, "start": start}
            of |= self._of | {"sinks": sinks}
            self.watch = Watch(model, *optimizers, **of)

    def step(self) -> bool:
        """Hand the loss over that was heard since the last step; whether there was one."""
        loss = self.losses.take()
        if loss is None or self.watch is None:
            return False
        with self.guarded():
            self.watch.step(loss)
        return True

    def stops(self) -> bool:
        """Whether an alarm is in force that is to stop training, on any rank; asks all of them."""
        if not self._stop_on:  # on every rank alike, so that none waits for another
            return False
        names = set() if self.watch is None else {f.name for f in self.watch.alarms}
        return _anywhere(bool(names & self._stop_on))

    def end(self) -> None:
        """Close the watch and take hooks away; nothing if there are none."""
        while self.hooks:
            self.hooks.pop().remove()
        watch, self.watch = self.watch, None
        if watch is not None:
            with suppress(Exception):  # whatever it holds, training must end as it would
                watch.close()


def _grouped() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _anywhere(here: bool) -> bool:
    if not _grouped():
        return here
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    count = torch.tensor(float(here), device=device)
    distributed.all_reduce(count)
    return bool(count > 0)

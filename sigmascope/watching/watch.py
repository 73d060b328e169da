"""Watching a model while an optimizer trains it.

Between looks nothing happens but the counting of steps. At the end of a look it is known at which
step the next one is due and what is read there, so that all processes that train the model agree.
The invariant: nothing here changes training. What is read is copied, no random number of the
model's is drawn, and whatever fails is one line, after which it is left alone.
"""

import logging
import math
import os
import pickle
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from sigmascope.core import quantities as q
from sigmascope.core.guard import CTRL_C, Closing, door_of, on_cpu, unbroken
from sigmascope.core.records import Finding, Skipped
from sigmascope.models.samples import Batch, Loss
from sigmascope.models.state import is_compiled, unwrapped, within
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.alarms.tracks import trained_matrices
from sigmascope.watching.extra_passes import EagerPass
from sigmascope.watching.hooks import removed
from sigmascope.watching.probes import Losses, ProbeBatch
from sigmascope.watching.probes.base import Added, all_of_torch, places
from sigmascope.watching.processes import Processes
from sigmascope.watching.run_files import Filing, about_of, opened
from sigmascope.watching.schedule import Scheduler, chosen, require_share
from sigmascope.watching.sinks import OWN, Column, Sink, one_line
from sigmascope.watching.steps import READ_BY, Inputs, LossListener, LossMeans, SharedLossListener

LOG = logging.getLogger("sigmascope")
USUAL = 0.02  # of the training time
ENDING = "some processes may end before the others, as inside of `join()`"


@door_of
@final
class Watch(Closing):
    """Reads a model while it trains, within a share of the training time, and raises alarms.

    Steps are counted by hooks of the optimizer: accumulated gradients count once, and steps that a
    gradient scaler leaves out do not. Readings are of the training batches themselves.

    Args:
        model: What is trained; as it is called, with all wrappers (`DistributedDataParallel`,
            `torch.compile`), or the module inside.
        optimizers: Of torch, whose steps are followed; steps of the last one are counted.
        run: A run file, to which looks are filed; one that exists goes on.
        sinks: Where looks go besides.
        budget: Share of the training time that watching may take.
        only: Names of the probes that are read: `"gradients"`, `"updates"`, `"activations"`,
            `"attention"`, `"representations"`, `"spectra"`, `"balances"`, `"sharpness"`,
            `"profile"`, `"conservation"`; all that can be if not given. The first two do with
            `budget=0.003`.
        probe_batch: A batch that stays the same, for what training batches do not tell.
        targets: Of the probe batch.
        loss: `loss(output, targets)`; with it and targets the sharpness is read.
        views: What is read of the probe batch by `profile`; `"features"` if not given. With
            `"balances"` a ledger of them is kept at every step besides, whatever that costs
            (`drifts`).
        every: Steps between two profiles, which are taken and filed whatever that costs; if not
            given, as many as the budget asks for.
        blocks: Whether balances of pairs of units are followed too, and not only of each unit; in
            wide layers their products take several times as long as a step of training.
        start: Steps made before, as after a restart; if not given, the last step of the run file.
        together: Whether all processes of the default group train this model; if not given, they
            do where it is wrapped for them or its weights are sharded.
        clock: In seconds.

    Raises:
        Refusal: If no optimizer trains a parameter of the model, the budget is no share, a view is
            unknown, or balances of the probe batch cannot be found.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> x, opt = torch.randn(5, 3), torch.optim.SGD(net.parameters(), lr=0.1)
        >>> with Watch(net, opt) as watch:
        ...     for _ in range(20):
        ...         opt.zero_grad()
        ...         loss = net(x).square().mean()
        ...         loss.backward()
        ...         opt.step()
        ...         alarms = watch.step(loss)
        >>> watch.steps, alarms
        (20, ())
    """

    def __init__(
        self,
        model: nn.Module,
        *optimizers: Any,
        run: str | os.PathLike[str] | None = None,
        sinks: Sequence[Sink] = (),
        budget: float = USUAL,
        only: Collection[str] | None = None,
        probe_batch: Batch | None = None,
        targets: Any = None,
        loss: Loss | None = None,
        views: Collection[q.View] | None = None,
        every: int | None = None,
        blocks: bool = False,
        start: int | None = None,
        together: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        require_share(budget)
        trained = all_of_torch(optimizers)
        inner, processes = unwrapped(model), Processes.of(model, together)
        found = places(inner, trained)
        vectors = [place.site for place in found if all(p.ndim < 2 for p in place.parameters)]
        self._alarms = Alarms(matrices=trained_matrices(inner, trained), vectors=vectors)
        losses, means = Losses(), LossMeans()
        probe = None if probe_batch is None else ProbeBatch(probe_batch, targets, loss)
        compiled = any(is_compiled(m) for m in within(model))
        wanted: Any = {"views": views, "every": every, "blocks": blocks, "only": only}
        of: Any = {"probe": probe, "compiled": compiled}
        probes = chosen(inner, found, processes, losses, **of, **wanted)
        about = about_of(inner, trained, budget=budget, processes=processes.count)
        files, step = opened(run, inner, about, processes, start)
        self._filing = Filing([*files, *sinks] if not processes.rank else (), budget, clock, means)
        again, rest = EagerPass(model, inner, probe, processes), self._filing.rest
        self._scheduler = Scheduler(probes, processes, rest, clock, step, again)
        self._processes, self._clock = processes, clock
        timed: Any = {"budget": budget, "clock": clock, "step": step}
        heard: Any = (self._alarms, losses, means)
        hear: Any = {"turn": self._turn, **timed}
        self._joint = SharedLossListener(processes, *heard, **hear) if processes.count > 1 else None
        self._listener = self._joint or LossListener(*heard, **hear)
        self._trained, self._over, self._added = trained, False, Added(trained)
        self._inputs = Inputs.of(inner, self._alarms, probes, **timed)
        self._probes = probes
        self._told = self._in_force = tuple[Finding, ...]()
        self._handles, self._counting = list[RemovableHandle](), None
        try:
            for each in probes:  # after all that may refuse, and before the steps are counted
                each.follow(trained)
            self._counting = trained[-1].register_step_post_hook(self._listener.stepped)
            self._open()
        except BaseException:  # Ctrl-C, too: nobody has what could be closed
            self._let_go()
            raise

    @on_cpu()
    def step(self, loss: float | Tensor | None = None) -> tuple[Finding, ...]:
        """Hand in the loss of a step, and hear what was found since the last call.

        Args:
            loss: Of this step; looked at when the next look is taken. Where steps are short, one
                loss in several is noted, but for a plain number that is NaN.

        Returns:
            Alarms that began, and notes that one has ended; the same in all processes.
        """
        try:
            # a plain number that is none is heard at once; to ask a tensor costs what is saved here
            if self._listener.skip and not (isinstance(loss, float) and loss != loss):
                self._listener.skip -= 1
            elif loss is not None and not self._over and self._listener.loss(loss):
                self._hear()
        except Exception as error:  # noqa: BLE001 (a loop may hand in anything)
            self._give_up(f"{type(error).__name__}: {error}")
        told, self._told = self._told, ()
        return told

    @property
    def steps(self) -> int:
        """Steps of the optimizer so far."""
        return self._listener.steps

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """The alarms that are in force; the same in all processes."""
        return self._in_force

    @property
    def share(self) -> float:
        """Of the training time so far, what watching has taken."""
        trained = self._scheduler.trained(self.steps)
        spent = self._scheduler.buckets.spent + self._filing.spent
        return spent / trained if trained else 0.0

    def __repr__(self) -> str:
        """How far it is, what it took, and what is in force."""
        of = f"{self.steps:,} steps, {self.share:.1%} of the training time taken"
        state = "over" if self._over else "under way"
        in_force = [str(alarm) for alarm in self._in_force] or ["no alarm is in force"]
        return "\n".join((f"Watch, {state}: {of}", *in_force))

    @on_cpu()
    def drifts(self) -> tuple[Any, ...]:
        """With the view `"balances"`, each balance with its drift and a verdict; else none.

        Balances drift from where they were when the watch began, by what the steps since explain,
        or not (`theory.le2022.conservation.Drift`; `broken_balances` there says what broke one).
        There are none, too, once a step could not be followed, which the log says.
        """
        return tuple(drift for probe in self._probes for drift in probe.drifts())

    @unbroken
    def __enter__(self) -> "Watch":
        CTRL_C.__enter__()  # which waits, once the block is left, until all hooks are gone
        return self

    @unbroken
    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            CTRL_C.__exit__()

    @unbroken
    def close(self) -> None:
        """File what was read last, and take every hook away."""
        with CTRL_C:
            self._let_go()
            self._end()

    @unbroken
    def _let_go(self) -> None:
        """Take every hook away."""
        if self._counting is not None:
            self._counting.remove()
        for each in self._probes:
            each.end()
        removed(self._handles)
        self._inputs.close()

    @on_cpu()
    def _end(self) -> None:
        self._over = True
        self._scheduler.close()
        # where the run file ends, a run that goes on in it begins
        share = Column(q.WATCHED_SHARE, [OWN], [min(self.share, 1.0)])
        columns = [share] if self._scheduler.buckets.trained else []
        begun: list[Finding] = []
        try:
            if not self._processes.rank and (last := self._listener.rest(self._scheduler.buckets)):
                columns += last
                # loops end where a loss is no number, and no step follows that could be looked at
                begun = self._alarms.look(self.steps, last)
                if begun and not self._joint:  # whose processes do not meet any more
                    self._told, self._in_force = (*self._told, *begun), self._alarms.in_force
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            LOG.warning("sigmascope leaves out the last losses: %s", one_line(error))
        if self._joint:
            self._joint.stop()
        skipped = [*self._scheduler.dropped, *self._listener.left_out()]
        self._filing.keep(self.steps, columns, [], begun, skipped)
        self._filing.close(self.steps)

    @unbroken
    def _open(self) -> None:
        """The step that follows is looked at: hooks are there for it alone."""
        start = self._clock()
        self._scheduler.open()
        for optimizer in self._trained:
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            if optimizer is not self._trained[-1]:
                self._handles.append(optimizer.register_step_post_hook(self._stepped))
        self._listener.wait(0)
        self._scheduler.took(start)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._scheduler.opened and self._processes.ending:
            self._give_up(ENDING)
        if self._scheduler.opened:
            closure = any(callable(v) for v in (*args[1:], *kwargs.values()))
            with torch.no_grad():
                self._scheduler.before(optimizer, closure=closure)

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        if self._scheduler.opened:
            with torch.no_grad():
                self._scheduler.stepped(optimizer)

    @on_cpu()
    def _turn(self) -> None:
        """The last optimizer has stepped, and something is due."""
        removed(self._handles)  # here no list is gone through in which one of them is
        if self._scheduler.opened:
            self._stepped(self._trained[-1])
            self._look()
        elif self._listener.full:
            self._hear()
        hurry = self._joint.wish if self._joint else self._scheduler.hurry
        looked = self._inputs.turn(self.steps, self._scheduler.buckets, hurry)
        if looked or (not self._scheduler.opened and self.steps + 1 >= self._scheduler.next):
            self._open()
        elif not self._scheduler.opened:
            if self._joint:
                self._inputs.next = self._joint.just_before(self._inputs.next)
            self._listener.wait(min(self._scheduler.next, self._inputs.next))

    def _give_up(self, why: str) -> None:
        LOG.warning("sigmascope watches no more: %s", one_line(why))
        self._filing.keep(self.steps, (), (), (), [Skipped(OWN, "watching", why)])
        self._end()

    def _hear(self) -> None:
        try:
            if self._processes.ending:
                self._give_up(ENDING)
                return
            hints = self._listener.hear(self._scheduler.buckets)
            wished = self._joint is not None and self._joint.wished
            also = READ_BY if wished or self._alarms.struck else ""
            if hints and self._scheduler.hurry(self.steps, also):
                self._open()
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._give_up(f"{type(error).__name__}: {error}")

    @torch.no_grad()
    def _look(self) -> None:
        try:
            self._listener.hear(self._scheduler.buckets, look=True)
            found = self._scheduler.read(self.steps)
        except Exception as error:  # noqa: BLE001 (a process is gone: no other can be reached)
            self._give_up(f"{type(error).__name__}: {error}")
            return
        elsewhere, alarms, over = 0.0, (), False
        try:
            if not self._processes.rank:
                columns = [f for f in found if isinstance(f, Column)]
                rest = [f for f in found if not isinstance(f, Column)]
                columns.append(Column(q.WATCHED_SHARE, [OWN], [min(self.share, 1.0)]))
                begun = tuple(self._alarms.look(self.steps, columns))
                skipped = [*self._scheduler.dropped, *self._added.since()]
                skipped += self._listener.left_out()
                self._scheduler.dropped = []
                self._filing.keep(self.steps, columns, rest, begun, skipped)
                buckets, must = self._scheduler.buckets, self._scheduler.must_file
                elsewhere = self._filing.file_if_due(self.steps, buckets, must=must)
                alarms = begun
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._give_up(f"{type(error).__name__}: {error}")
            over = True
        mine = alarms, self._alarms.in_force
        news = pickle.dumps(mine) if alarms and self._joint else b""
        again = self._alarms.waiting
        news = self._scheduler.settle(self.steps, elsewhere, over=over, again=again, news=news)
        told, in_force = mine
        if news and self._processes.rank:
            told, in_force = pickle.loads(news)
        if told:
            self._told, self._in_force = self._told + told, in_force
        if self._joint and math.isinf(self._scheduler.next):
            self._joint.stop()

"""What of the looks is filed in a run file, and when."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import nn
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import WATCH
from sigmascope.core.records import Check, Finding, Layer, Reading, SiteSpectrum, Skipped
from sigmascope.core.store import Run
from sigmascope.models.layers import layers
from sigmascope.watching.processes import Processes
from sigmascope.watching.schedule import Buckets
from sigmascope.watching.sinks import WHOLE, Column, Look, Sink, one_line
from sigmascope.watching.steps import LossMeans

# ------------------------------------------------------------------------------
# What of the looks is filed, and when: seldom enough for the budget and for the size of the file.
#
# An alarm is filed at once. Of everything else the newest is filed when a share of the budget has
# paid for it, and never more often than each two-hundredth of the steps made, so that a run of any
# length has some hundreds to two thousand points. The invariant: a number is filed at the step that
# it is of, however much later it is filed.


LOG = logging.getLogger("sigmascope")
SHARE = 0.15  # of the budget
ADVANCE, THINNER = 0.25, 16  # seconds for the first of all, at each so many-th of the steps made
POINTS = 200  # of the steps made so far, between two that are filed


class Filing:
    """Keeps what was read last and hands it to the sinks when its time has come.

    Args:
        sinks: Where it goes.
        budget: Share of the training time that watching may take.
        clock: In seconds.
        means: Of losses; filed with what is kept.

    Attributes:
        spent: Seconds that filing has taken.
        rest: Of the budget, for everything else.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        budget: float,
        clock: Callable[[], float],
        means: LossMeans | None = None,
    ) -> None:
        self._means = means or LossMeans()
        self._sinks, self._budget, self._clock = list(sinks), budget * SHARE, clock
        self.rest = budget - self._budget if self._sinks else budget
        self._columns: dict[tuple[str, str, str], tuple[int, Column]] = {}
        self._rest: dict[tuple[str, ...], tuple[int, list[SiteSpectrum | Reading | Check]]] = {}
        self._skipped: list[Skipped] = []
        self._findings: list[Finding] = []
        self._last: int | None = None
        self._cost = 0.0
        self.spent, self._lent = 0.0, 0.0

    def keep(
        self,
        step: int,
        columns: Sequence[Column],
        rest: Sequence[SiteSpectrum | Reading | Check],
        findings: Sequence[Finding],
        skipped: Sequence[Skipped],
    ) -> None:
        """What a look has found at a step; of each quantity the newest is kept."""
        if not self._sinks:
            return
        for column in columns:
            own = column.sites[0] if len(column.sites) == 1 else ""
            at = step if column.step is None else column.step
            self._columns[column.quantity, column.form, own] = at, column
        for each in rest:
            if isinstance(each, Check):
                name = "check", each.site, each.theorem
            elif isinstance(each, Reading):
                name = each.view, each.site, each.form, each.quantity
            else:
                name = each.site, each.form
            at, same = self._rest.get(name, (step, []))
            self._rest[name] = step, [*(same if at == step else ()), each]  # balances share sites
        self._findings += findings
        self._skipped += skipped

    def file_if_due(self, step: int, buckets: Buckets, *, must: bool = False) -> float:
        """Hand over what was kept, if it is its time or must be; the seconds it took."""
        start = self._clock()
        paid = self.spent - self._lent + self._cost <= self._budget * buckets.trained
        early = not paid and self._lent + self._cost <= ADVANCE
        wait = max(1, step // (THINNER if early else POINTS))
        paid, apart = paid or early, self._last is None or step - self._last >= wait
        if must or self._findings or self._last is None or (paid and apart):
            self.file(step)
            self._lent += self._cost if early else 0.0
        return self._clock() - start

    def file(self, step: int) -> None:
        """Hand over what was kept, each at the step that it was read at."""
        start = self._clock()
        means = self._means.take()
        # one for each step at which something was read, in their order
        read = [(at, r) for at, c in self._columns.values() for r in c.readings()]
        kept = [*read, *((at, each) for at, same in self._rest.values() for each in same)]
        said = tuple(self._findings), tuple(self._skipped)
        steps, looks = {at for at, _ in kept} | ({step} if any(said) else set()), []
        for at in sorted(steps):
            own = [found for when, found in kept if when == at]
            readings = tuple(r for r in own if isinstance(r, Reading))
            spectra = tuple(s for s in own if isinstance(s, SiteSpectrum))
            checks = tuple(c for c in own if isinstance(c, Check))
            findings, skipped = said if at == max(steps) else ((), ())
            looks.append(Look(at, readings, spectra, findings, skipped, checks=checks))
        if not (looks or means):
            return
        looks = looks or [Look(step, ())]
        looks[0] = replace(looks[0], losses=means)
        for look in looks:
            for sink in [*self._sinks]:
                self._hand(sink, lambda s, look=look: s.write(look))
        self._columns, self._rest, self._findings, self._skipped = {}, {}, [], []
        self._last, self._cost = step, self._clock() - start
        self.spent += self._cost

    def close(self, step: int) -> None:
        """Hand over what is left, and let go of the sinks."""
        self._means.end()
        if self._sinks:
            self.file(step)
        for sink in [*self._sinks]:
            self._hand(sink, lambda s: s.close())
        self._sinks = []

    def _hand(self, sink: Sink, do: Callable[[Sink], None]) -> None:
        try:
            do(sink)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._sinks.remove(sink)
            LOG.warning(
                "sigmascope files nothing more in %s: %s", type(sink).__name__, one_line(error)
            )


# ------------------------------------------------------------------------------
# A run file as a sink.


class RunFile:
    """Looks, appended to a run file; one that exists goes on.

    Args:
        path: The file.
        model: Whose layers are named in it.
        about: The circumstances, in words.

    Attributes:
        last: The last step that the file holds; 0 for a new one.

    Raises:
        As `Run`.
    """

    def __init__(
        self, path: str | os.PathLike[str], model: nn.Module, about: Mapping[str, str]
    ) -> None:
        self._run = Run(path)
        self.last = max(self._run.steps(), default=0)
        found, known = [], {row.site for row in self._run.layers()}
        if strange := sorted(known ^ {*layers(model)} if known else ()):
            LOG.warning(
                "sigmascope goes on in %s behind step %d, where it holds a run of other layers "
                "(%s is in one of both alone): name another file where this is another run",
                path, self.last, strange[0] or WHOLE,
            )  # fmt: skip
        if not known:
            for i, (name, module) in enumerate(layers(model).items()):
                own = tuple(f"{name}.{p}".removeprefix(".") for p, _ in module.named_parameters())
                found.append(Layer(name, type(module).__name__, i, own))
        self._first = {"about": dict(about), "views": (WATCH,), "layers": tuple(found)}

    def write(self, look: Look) -> None:
        """Append a look; it is in the file when this returns."""
        first, self._first = self._first, {}
        of = {"readings": look.readings, "spectra": look.spectra, "checks": look.checks}
        of |= {"findings": look.findings, "skipped": look.skipped, **first}
        losses = [{"step": step, "readings": [loss]} for step, loss in look.losses]
        self._run.add_steps([*losses, {"step": look.step, **of}])

    def close(self) -> None:
        """Let go of the file."""
        self._run.close()


def about_of(
    model: nn.Module, optimizers: Sequence[Optimizer], *, budget: float, processes: int
) -> dict[str, str]:
    """What is watched, in words."""
    count = sum(p.numel() for p in model.parameters())
    words = {
        "model": f"{type(model).__name__}, {count} parameters",
        "budget": f"{budget:g} of the training time",
        "processes": str(processes),
    }
    plain = (float, int, bool, tuple)
    for i, optimizer in enumerate(optimizers):
        name = "optimizer" if len(optimizers) == 1 else f"optimizer {i}"
        defaults = optimizer.defaults.items()
        settings = ", ".join(f"{k}={v}" for k, v in defaults if isinstance(v, plain))
        words[name] = f"{type(optimizer).__name__}({settings})"
    return words


def opened(
    path: str | os.PathLike[str] | None,
    model: nn.Module,
    about: Mapping[str, str],
    processes: Processes,
    start: int | None,
) -> tuple[list[RunFile], int]:
    """The run file, in the first process, and the steps made before.

    Args:
        path: The file; None for none.
        model: As for `RunFile`.
        about: As for `RunFile`.
        processes: Of which the first writes; all hear whether it can.
        start: Steps made before; None to go by the file.

    Raises:
        Refusal: If `start` is below 0; as `Run` in the first process; in all others that it could
            not open the file.
    """
    if start is not None and start < 0:
        raise Refusal(
            f"`start` must be the steps made before, 0 or more, got {start}. Leave it out to go on "
            "behind the last step of the run file."
        )
    files, error = list[RunFile](), None
    if path is not None and not processes.rank:
        try:
            files = [RunFile(path, model, about)]
        except (Refusal, OSError) as failure:
            error = failure
    if start is None:
        start = files[0].last if files else 0
    failed, steps = processes.agreed([float(error is not None), start])
    if error is not None:
        raise error
    if failed:
        raise Refusal(
            f"`run` must be a file that the first process can write, got {os.fspath(path or '')!r}."
            " Pass another one; that process says why."
        )
    return files, int(steps)

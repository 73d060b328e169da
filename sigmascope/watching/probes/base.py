"""Which parameters probes look at, and what every probe does, in the order that it is asked to."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import unwrap
from itertools import groupby
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Check, Reading, SiteSpectrum, Skipped
from sigmascope.watching.hooks import inaudible
from sigmascope.watching.sinks import OWN, WHOLE, Column

# ------------------------------------------------------------------------------
# Which parameters are trained, by whom, and where they are in the model.


LOG = logging.getLogger("sigmascope")


@dataclass(frozen=True, slots=True)
class Place:
    """A module with parameters of its own that an optimizer trains.

    Attributes:
        site: Its name.
        parameters: Those of them that are trained.
        optimizer: By which.
    """

    site: str
    parameters: tuple[nn.Parameter, ...]
    optimizer: Optimizer


def places(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[Place]:
    """Every module with trained parameters of its own, in the model's order.

    Raises:
        Refusal: If no optimizer trains a parameter of the model, or one has no shape yet.
    """
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise Refusal(
            f"`{lazy[0]}` must have its shape, got a lazily initialised parameter. Run the model "
            "once on a batch before it is watched."
        )
    trainer = {id(p): o for o in optimizers for p in trained(o)}
    named = (
        (name.rpartition(".")[0] or WHOLE, p)
        for name, p in model.named_parameters()
        if id(p) in trainer and p.is_floating_point()
    )
    groups = groupby(named, key=lambda each: (each[0], trainer[id(each[1])]))
    found = [
        Place(site, tuple(p for _, p in group), optimizer) for (site, optimizer), group in groups
    ]
    if not found:
        held = sum(len(list(trained(o))) for o in optimizers)
        raise Refusal(
            f"The optimizers must train parameters of the model, got {held} parameters of others. "
            "Pass the model that is trained and the optimizer made from its `parameters()`; make "
            "the optimizer first, and watch after the model was wrapped or sharded."
        )
    return found


def all_of_torch(optimizers: Sequence[Any]) -> tuple[Optimizer, ...]:
    """The optimizers of torch inside of wrappers, each once.

    Raises:
        Refusal: If there is none, or one is no optimizer.
    """
    if not optimizers:
        raise Refusal(
            "There must be at least one optimizer, got none. Pass the one that trains the "
            "model, as in `watch(model, optimizer)`."
        )
    return tuple(dict.fromkeys(of_torch(o) for o in optimizers))


def of_torch(optimizer: Any) -> Optimizer:
    """The optimizer of torch inside of a wrapper, as that of Accelerate or Lightning."""
    inner = optimizer
    while within := _within(inner):
        inner = within
    if not isinstance(inner, Optimizer):
        advice = "what `step()` is called of, as in `watch(model, optimizer)`"
        if isinstance(optimizer, list | tuple | dict):
            advice = "several one after the other, as in `watch(model, first, second)`"
        raise Refusal(
            f"`optimizers` must be optimizers of torch, got a {type(optimizer).__name__}. Pass "
            f"{advice}."
        )
    return inner


def _within(outer: Any) -> Optimizer | None:
    """The optimizer that one of another kind calls, whose `step` may never be called itself.

    As SAM makes its steps: it has one of the same parameters inside.
    """
    if isinstance(within := getattr(outer, "optimizer", None), Optimizer):
        return within
    if not isinstance(outer, Optimizer):
        return None
    held = {id(p) for p in trained(outer)}
    some = [o for o in vars(outer).values() if isinstance(o, Optimizer)]
    same = [o for o in some if {id(p) for p in trained(o)} == held]
    return same[0] if len(same) == 1 else None


def trained(optimizer: Optimizer) -> Iterator[Tensor]:
    """The parameters that an optimizer holds."""
    for group in optimizer.param_groups:
        yield from group["params"]


def steps_as(optimizer: Optimizer, kinds: tuple[type[Optimizer], ...]) -> bool:
    """Whether an optimizer makes the steps of one of these kinds of torch.

    One that inherits from them and steps in its own way, as Muon may, does not.
    """
    step: Any = unwrap(type(optimizer).step)  # torch wraps it when the first is made
    return any(isinstance(optimizer, kind) and step is unwrap(kind.step) for kind in kinds)


class Added:
    """What optimizers are given to train after they were first seen; norms of it are not read.

    Args:
        optimizers: Of torch.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._held = {o: len(list(trained(o))) for o in optimizers}

    def since(self) -> Iterator[Skipped]:
        """What has come since this was last asked."""
        for optimizer, before in self._held.items():
            if new := len(list(trained(optimizer))) - before:
                self._held[optimizer] += new
                why = f"{new} parameters came to an optimizer behind the start of this watch"
                LOG.warning("sigmascope does not read norms of added parameters: %s", why)
                yield Skipped(OWN, "norms of added parameters", why)


TRY = "a `probe_batch` is run as it is written"
Found = Column | SiteSpectrum | Reading | Check
Sharing = Generator[Tensor, Tensor, None]


class Probe(ABC):
    """Something that is read at one step now and then.

    A probe is opened before a step, told when gradients are there and when the optimizer has
    stepped, asked for its part of what is summed over processes, and read from the sum. Only the
    first process reads. None sends anything to another process by itself, but behind a `yield` of
    `agree`, where all are known to have come: one that failed elsewhere would wait for ever.

    Attributes:
        name: What it reads, in words.
        share: Of the time that watching may take; 0 where that is not held to the budget.
        first: The first step at which it may be read.
        of_batch: The view of a probe batch that it reads; "" for training itself. It may then be
            asked for at fixed steps.
        every: It is read at each so many-th step, whatever that costs; 0: when it is paid for.
        of_gradients: Whether `before` reads gradients, which a closure makes during the step.
        seconds: That this turn has taken so far.
        beside: Seconds that it has taken at steps of training that no look was at; taken away
            when they are counted.
        unheard: Modules that its hooks cannot hear.
        idle: Whether there is nothing for it in this model.
        error: What went wrong in one of its hooks this turn.
        compiled: Whether one of its hooks was met where code is compiled.
        deaf: Those of them that a pass made once more behind the step lets it hear.
        again: Of what there is such a pass.
        step: Steps made, when it is read.
        notes: What it leaves out from here on; taken away when they are heard.
    """

    name: ClassVar[str]
    share: float
    first: ClassVar[int] = 1
    of_batch: ClassVar[str] = ""
    every: int = 0
    of_gradients: ClassVar[bool] = False
    seconds: float = 0.0
    beside: float = 0.0
    unheard: int = 0
    idle: bool = False
    error: Exception | None = None
    compiled: bool = False
    deaf: Sequence[nn.Module] = ()
    again: Literal["", "calls", "batch"] = ""
    step: int = 0
    notes: tuple[Skipped, ...] = ()

    def expected(self) -> float:
        """Seconds that a turn takes, before one was measured."""
        return 1e-3

    def clock(self) -> float:
        """In seconds; the watch puts its own in this place."""
        return time.perf_counter()

    def spent(self, seconds: float) -> None:
        """Some time was spent on this turn."""
        self.seconds += seconds

    def audible(self, model: nn.Module, modules: Sequence[nn.Module]) -> list[nn.Module]:
        """Those of some modules that hooks can hear; of others it is said that they are not."""
        deaf = set(model.modules()) if self.compiled else inaudible(model)
        heard = [m for m in modules if m not in deaf]
        self.deaf = [m for m in modules if m in deaf] if self.again else ()
        missing = len(modules) - len(heard) - len(self.deaf)
        if missing != self.unheard:
            self.unheard = missing
            why = f"{missing} of {len(modules)} modules run compiled, where no hook can hear; {TRY}"
            self.notes += (Skipped(OWN, f"{self.name} of compiled modules", why),)
        self.idle = bool(modules) and not (heard or self.deaf)
        return heard

    def listen(self) -> None:  # noqa: B027 (most need not)
        """The step's pass is made once more, for what `deaf` names and nothing else."""

    def failed(self, error: Exception) -> None:
        """A hook of this turn has failed; training goes on."""
        self.error = self.error or error

    def follow(self, optimizers: Sequence[Optimizer]) -> None:  # noqa: B027 (most need not)
        """Training begins with the next step of these, and goes on until `end`."""

    def end(self) -> None:  # noqa: B027 (most need not)
        """Training is over, or is not watched any more."""

    def drifts(self) -> tuple[Any, ...]:
        """Of what training conserves, how far each has drifted, with a verdict."""
        return ()

    def open(self) -> None:  # noqa: B027 (most need not)
        """The step that follows is read."""

    def before(self, optimizer: Optimizer) -> None:  # noqa: B027 (most need not)
        """Gradients are there, and this optimizer has not stepped."""

    def stepped(self, optimizer: Optimizer) -> None:  # noqa: B027 (most need not)
        """This optimizer has stepped."""

    def agree(self) -> Sharing:
        """What all processes must know before they can hand in parts that fit.

        Yields:
            A part of a sum, and is sent the sum.
        """
        yield from ()

    @abstractmethod
    def local(self) -> Tensor:
        """This process' part of the sums, as long as in all others; then it is closed."""

    @abstractmethod
    def read(self, total: Tensor) -> Iterator[Found]:
        """What the sum says."""

    def close(self) -> None:  # noqa: B027 (most need not)
        """Take away what was attached for a step that is read no more."""


def nothing() -> Tensor:
    """No part of any sum."""
    return torch.zeros(0, dtype=torch.float64)


class Layout:
    """Which sums are heard anywhere, and how long each is, so that parts of all processes fit.

    A process may have heard none of a layer: its batch was empty, or went another way.

    Attributes:
        sizes: Of what any process has heard, in an order that is the same in all.
    """

    def __init__(self) -> None:
        self.sizes: dict[Hashable, int] = {}

    def agree(self, heard: Mapping[Any, Tensor], possible: Sequence[Any]) -> Sharing:
        """Find the sizes that all share.

        Args:
            heard: Sums of this process.
            possible: Whatever may be heard; the same in all processes.
        """
        mine = [float(len(heard[at])) if at in heard else 0.0 for at in possible]
        there = [float(at in heard) for at in possible]
        total = yield torch.tensor([there, mine], dtype=torch.float64).flatten()
        counts, sums = total.view(2, -1).tolist()
        told = zip(possible, counts, sums, strict=True)
        self.sizes = {at: round(size / n) for at, n, size in told if n}

    def part(self, heard: Mapping[Any, Tensor]) -> Tensor:
        """The sums of this process, one behind the other, with zeros for those it did not hear.

        Raises:
            ValueError: If another process has heard a sum of another length.
        """
        parts = []
        for at, size in self.sizes.items():
            part = heard[at].cpu() if at in heard else torch.zeros(size, dtype=torch.float64)
            if len(part) != size:
                raise ValueError(f"{at} has {len(part)} entries here and others elsewhere")
            parts.append(part)
        return torch.cat(parts) if parts else nothing()

    def split(self, total: Tensor) -> dict[Any, Tensor]:
        """The sums over all processes, by name."""
        return dict(zip(self.sizes, total.split([*self.sizes.values()]), strict=True))


def alone(steps: Sharing) -> None:
    """Let a probe agree with itself, where no other process trains the model."""
    total = next(steps, None)
    while total is not None:
        try:
            total = steps.send(total)
        except StopIteration:
            return


def handed(probe: Probe) -> Generator[tuple[Tensor, bool], Tensor, None]:
    """What a probe hands in, one after another, and whether it is the last; it is sent the sums."""
    if probe.error is not None:
        raise probe.error
    steps, total = probe.agree(), None
    while True:
        try:
            part = next(steps) if total is None else steps.send(total)
        except StopIteration:
            break
        total = yield part, False
    yield probe.local(), True

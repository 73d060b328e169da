"""What the commands have in common: the model and the data that the user names."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope.cli.outputs import note, refusing
from sigmascope.cli.progress import STATUS, progress_bar
from sigmascope.core import guard
from sigmascope.core.quantities import ALL, View

if TYPE_CHECKING:
    import torch

    from sigmascope.core.records import ScanPlan
    from sigmascope.diagnosis import Diagnosis, Program
    from sigmascope.integrations.processes import WorkerProcesses
    from sigmascope.models import Subject
    from sigmascope.sources import Data, Model


# ------------------------------------------------------------------------------
# Ranges of what is said on the command line; what is outside of them is refused by name.
#
# Where a door of the library has a sentence of its own for a number, it says it.


LARGEST = 2**31 - 1  # of a whole number; more is no number of anything that fits a machine
FAR = 1e6  # of a strength or a scale, or one over it

Fitting = Annotated[int, Parameter(validator=Number(lte=LARGEST))]  # the door says the rest
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=LARGEST))]
Index = Annotated[int, Parameter(validator=Number(gte=0, lte=LARGEST))]
Step = Annotated[int, Parameter(validator=Number(gte=0, lt=2**63))]
Points = Annotated[int, Parameter(validator=Number(lte=2001))]
Units = Annotated[int, Parameter(validator=Number(gte=2, lte=LARGEST))]
Workers = Annotated[int, Parameter(validator=Number(gte=1, lte=1024))]
Depths = Annotated[list[int] | None, Parameter(consume_multiple=1, validator=Number(lte=10_000))]

Extent = Annotated[float | None, Parameter(validator=Number(gt=0, lte=FAR))]
Gain = Annotated[float, Parameter(validator=Number(gt=0))]  # infinite: no skip connection
Finite = Annotated[float, Parameter(validator=Number(gt=-math.inf, lt=math.inf))]
Chance = Annotated[float, Parameter(validator=Number(gt=0, lt=1))]
Momentum = Annotated[float, Parameter(validator=Number(gte=0, lt=1))]
Above = Annotated[float | None, Parameter(validator=Number(gt=0, lt=math.inf))]
AtLeast = Annotated[float | None, Parameter(validator=Number(gte=0, lt=math.inf))]
Ridges = Annotated[
    list[float] | None, Parameter(consume_multiple=1, validator=Number(gt=0, lt=math.inf))
]
Strengths = Annotated[
    list[float] | None, Parameter(consume_multiple=1, validator=Number(gte=-FAR, lte=FAR))
]

Names = Annotated[list[str] | None, Parameter(consume_multiple=1)]  # one or more


def _require_loss(_: Any, name: str | None) -> None:
    """Refuse a loss that there is not, before anything is read; what a file holds is seen later."""
    if name is not None and ":" not in name:
        from sigmascope.diagnosis import programs

        programs.loss_of(name)


def _require_device(_: Any, name: str | None) -> None:
    """Refuse a device that is not there, before anything is read."""
    if name is None:
        return
    import torch

    try:
        torch.zeros(1, device=name).tolist()  # `meta` is one that holds no numbers
    except (RuntimeError, AssertionError, ImportError) as error:  # as torch was built
        known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        known += ["mps"] * torch.backends.mps.is_available()
        words = " or ".join(f"`{device}`" for device in known)
        raise ValueError(f"There is no device `{name}` here; take {words}.") from error


Loss = Annotated[
    str | None,
    Parameter(
        validator=_require_loss,
        help="A name (`cross_entropy`, `mse`, `bce_with_logits`, any loss of torch's) or "
        "`file.py:function`; the program's own, or the one that fits the targets, if not given. "
        "What compares nothing with targets leaves it aside.",
    ),
]
Device = Annotated[
    str | None,
    Parameter(
        validator=_require_device,
        help="Where to compute: `cpu`, `cuda`, `cuda:1`, `mps`; where the model is, if not given.",
    ),
]


# ------------------------------------------------------------------------------
# By whom a scan or a sweep is carried out, and within which means.


MANY = Annotated[int | None, Parameter(validator=Number(gte=1, lte=1024))]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
SHORT = 20.0  # seconds of work, for which processes are not worth their start


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """By whom, and within which means.

    Attributes:
        workers: Processes of this machine; as many as it has cores for where there is work enough.
        ray: Share the work on Ray instead: the address of a cluster, or `local`.
        memory: How much all processes may take together, e.g. `8GB`; half of the machine's.
        spectra: Keep singular values in the run file: 24 bytes each.
    """

    workers: MANY = None
    ray: str | None = None
    memory: str | None = None
    spectra: Annotated[bool, Parameter(negative="--no-spectra")] = True


def workers_for(planned: "ScanPlan", how: How) -> int:
    """As many processes as there are cores, work and memory for.

    Raises:
        Refusal: If more are asked for than fit.
    """
    fitting = max(1, guard.allowed() // max(planned.memory, 1))
    if how.workers is not None:
        if how.workers > fitting and planned.matrices:
            raise guard.Refusal(
                f"{how.workers} workers of {guard.size_words(planned.memory)} each do not fit the "
                f"{guard.size_words(guard.allowed())} allowed: take {fitting}, or more `--memory`."
            )
        return how.workers
    return min(fitting, _cores(), max(1, int(planned.seconds // SHORT)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux says which are ours
        return os.cpu_count() or 1


@contextmanager
def hired(how: How, *, wanted: bool) -> Iterator["WorkerProcesses | None"]:
    """As many processes as were asked for, started before anything else is loaded.

    They take as long to load torch as this one does, and would otherwise begin when it has. More
    than there are cores wait until it is known whether they fit the memory.

    Args:
        how: By whom.
        wanted: Whether there will be work at all.
    """
    count = how.workers or 1
    if not wanted or how.ray is not None or not 1 < count <= _cores():
        yield None
        return
    from sigmascope.integrations.processes import WorkerProcesses

    with WorkerProcesses(count).hired("sigmascope.scanning") as crew:
        yield crew


def mapper_of(workers: int, how: How, crew: "WorkerProcesses | None" = None) -> Mapper:
    """What shares the work out; `crew` if it is hired already."""
    if crew is not None:
        return crew
    if how.ray is None:
        from sigmascope.integrations.processes import WorkerProcesses

        return map if workers == 1 else WorkerProcesses(workers)
    with refusing(ImportError):
        from sigmascope.integrations.ray import RayMap
    return RayMap(None if how.ray == "local" else how.ray)


BUDGET = "2min"


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """What to measure, and on what.

    Attributes:
        data: `digits`, `fashion-mnist`, `cifar10`, `gaussian`, an `.npy`, `.npz`, `.pt` or
            `.safetensors` file, or `file.py:loader`. Guessed from the first layer where it can be.
        checkpoint: Weights to load: a state dict as `.pt` or `.safetensors`.
        samples: How many samples of the data to measure on.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        seed: For the weights of a network that is built here, and for the choice of samples.
        batch_dim: Where the model wants its samples; the data always have them first.
        outputs: How many outputs to differentiate; as many mixtures of all where there are more.
            16 if not given, or 8 where a sample has more than 65536.
        loss: What the output is compared with the targets by.
        device: Where to compute.
        optimizer: Yours: `adam`, `sgd`, `rmsprop` or another of torch's. Adam of usual rates is
            tried if not given, and nothing is said of how you train.
        memory: How much the model and the data may take, measuring beside them, and a copy in
            training, e.g. `8GB`; half of the machine's.
    """

    data: str | None = None
    checkpoint: Path | None = None
    samples: Fitting = 128
    folder: Path | None = None
    seed: int = 0
    batch_dim: Fitting = 0
    outputs: Fitting | None = None
    loss: Loss = None
    device: Device = None
    optimizer: Annotated[str | None, Parameter(name=("--optimizer", "--optimiser"))] = None
    memory: str | None = None

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """What may name a file that is read."""
        return self.data, self.checkpoint


DEFAULT = Source()


@Parameter(name="*")
@dataclass(frozen=True)
class Plan(Source):
    """What to measure, on what, and how it is trained.

    Attributes:
        lr: Learning rate of the optimizer; torch's own if not given.
        momentum: Its momentum.
        weight_decay: Its weight decay.
        batch: Samples in a step.
        epochs: For how many you mean to train.
        fit: Whether to measure the probability of fitting, for which copies are trained. If not
            said, it is measured where training at your settings leaves something open, and not of
            weights that are loaded (a checkpoint, a Hugging Face folder).
        budget: How long copies may be trained, e.g. `60s`, `10min`; what there is no time for is
            left out, which is said.
    """

    lr: AtLeast = None
    momentum: AtLeast = None
    weight_decay: AtLeast = None
    batch: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    epochs: Above = None
    fit: Annotated[bool | None, Parameter(negative="--no-fit")] = None
    budget: str = BUDGET


UNPLANNED = Plan()


def open_named(model: str, source: Source) -> "tuple[Model, Data]":
    """The model and the data that the words of the command line name."""
    from sigmascope import sources

    STATUS(f"opening {model}", 0, 0)
    with guard.memory(source.memory):
        found = sources.open_both(
            model,
            data=source.data,
            checkpoint=source.checkpoint,
            samples=source.samples,
            folder=source.folder,
            batch_dim=source.batch_dim,
            generator=seeded(source.seed),
        )
    moved(found[0].module, source.device)
    return found


def budget_of(text: str) -> guard.Budget:
    """Time for copies in training; what it will take is said on the way."""
    return guard.Budget(guard.seconds_of(text), tell=note)


def moved(module: "torch.nn.Module", device: str | None) -> None:
    """To a device, if one was named; the data follow the model."""
    if device is None:
        return
    try:
        module.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch says why
        words = str(error).split("\n")[0]
        raise guard.Refusal(f"`--device {device}` cannot be used, torch says: {words}") from error


def seeded(seed: int) -> "torch.Generator":
    """A generator of its own, so that a command gives the same numbers every time."""
    import torch

    if not -(2**63) <= seed < 2**63:
        raise guard.Refusal(f"`--seed` must fit 64 bits, got {seed}: take a smaller number.")
    return torch.Generator().manual_seed(seed)


def task(data: "Data", source: Source) -> dict[str, Any]:
    """What the output is compared with, and how; nothing where the data have no targets.

    Raises:
        Refusal: If a loss was named and there are none.
    """
    if data.targets is None and source.loss is not None:
        raise guard.Refusal(
            f"`--loss {source.loss}` compares outputs with targets, and the data ({data.name}) "
            "have none: add them (`y` of a `.npz`), or leave `--loss` away."
        )
    loss = None if data.targets is None else loss_of(source.loss)
    return {"targets": data.targets, "loss": loss}


def loss_of(name: str | None) -> Any:
    """The loss that the user names, or the one that fits the targets."""
    from sigmascope.diagnosis import programs
    from sigmascope.sources import open_program

    if name is None:
        return programs.fitting_loss
    if ":" not in name:
        return programs.loss_of(name)
    made = open_program(name, called=False)
    if not callable(made):
        raise guard.Refusal(f"`--loss {name}` must be a function of output and targets.")
    return made() if isinstance(made, type) else made


def family(source: Source) -> Literal["adam", "sgd"]:
    """The kind of optimizer at whose usual rates training is foretold."""
    from sigmascope.diagnosis.programs import family_of

    return family_of(source.optimizer)


def program_of(opened: "Model", data: "Data", source: Plan) -> "Program":
    """The user's program, as far as the words of the command line tell of it."""
    from sigmascope.diagnosis import Program

    named = {"momentum": source.momentum, "weight_decay": source.weight_decay}
    options = {k: v for k, v in named.items() if v is not None}
    if source.optimizer is None and (options or source.lr is not None):
        raise guard.Refusal(
            "A rate, momentum or weight decay go with an optimizer: add `--optimizer adam`."
        )
    return Program(
        opened.module,
        data,
        loss_of(source.loss),
        source.optimizer,
        source.lr,
        source.batch,
        source.epochs,
        options,
        total=data.total,
    )


def measure(
    opened: "Model",
    data: "Data",
    source: Plan,
    views: list[View] | None,
    budget: guard.Budget,
    *,
    quick: bool = False,
) -> "Diagnosis":
    """A diagnosis whose profile knows the names the user gave."""
    from sigmascope import diagnosis

    with guard.memory(source.memory), progress_bar() as progress:
        found = diagnosis.diagnose(
            program_of(opened, data, source),
            samples=source.samples,
            views=views or ALL,
            outputs=source.outputs,
            batch_dim=source.batch_dim,
            generator=seeded(source.seed),
            progress=progress,
            early=progress.found,
            quick=quick,
            fit=False if source.fit is None and opened.trained else source.fit,
            budget=budget,
        )
    measured = found.profile
    unfit = [s.why for s in measured.skipped if s.what == diagnosis.rules.UNFIT]
    if unfit and source.loss is None:  # the loss fits whatever can be fitted
        raise guard.Refusal(unfit[0])
    named = {"name": opened.name, "weights": opened.weights, "data": data.name}
    about = MappingProxyType({**named, **measured.about})
    return replace(found, profile=replace(measured, about=about))


def subject_of(opened: "Model", data: "Data", source: Source) -> "Subject":
    """What the theorems are checked on."""
    from sigmascope import models

    return models.Subject(
        opened.module,
        data.inputs,
        *task(data, source).values(),
        outputs=source.outputs,
        batch_dim=source.batch_dim,
        generator=seeded(source.seed),
    )

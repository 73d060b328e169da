"""What the commands have in common: the model and the data that the user names."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope import gate
from sigmascope.cli.outputs import note, progress_bar
from sigmascope.cli.ranges import Above, AtLeast, Device, Fitting, Loss
from sigmascope.quantities import ALL, View

if TYPE_CHECKING:
    import torch

    from sigmascope.diagnosis import Diagnosis, Program
    from sigmascope.probes import Subject
    from sigmascope.sources import Data, Model


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
        optimiser: Yours: `adam`, `sgd`, `rmsprop` or another of torch's. Adam of usual rates is
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
    optimiser: Annotated[str | None, Parameter(name=("--optimizer", "--optimiser"))] = None
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
        lr: Learning rate of the optimiser; torch's own if not given.
        momentum: Its momentum.
        weight_decay: Its weight decay.
        batch: Samples in a step.
        epochs: For how many you mean to train.
        fit: Whether to measure the probability of fitting, for which copies are trained. Measured
            if not said, but not of weights that are loaded (a checkpoint, a Hugging Face folder).
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

    with gate.memory(source.memory):
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


def budget_of(text: str) -> gate.Budget:
    """Time for copies in training; what it will take is said on the way."""
    return gate.Budget(gate.seconds_of(text), tell=note)


def moved(module: "torch.nn.Module", device: str | None) -> None:
    """To a device, if one was named; the data follow the model."""
    if device is None:
        return
    try:
        module.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch says why
        words = str(error).split("\n")[0]
        raise gate.Refusal(f"`--device {device}` cannot be used, torch says: {words}") from error


def seeded(seed: int) -> "torch.Generator":
    """A generator of its own, so that a command gives the same numbers every time."""
    import torch

    if not -(2**63) <= seed < 2**63:
        raise gate.Refusal(f"`--seed` must fit 64 bits, got {seed}: take a smaller number.")
    return torch.Generator().manual_seed(seed)


def task(data: "Data", source: Source) -> dict[str, Any]:
    """What the output is compared with, and how; nothing where the data have no targets."""
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
        raise gate.Refusal(f"`--loss {name}` must be a function of output and targets.")
    return made() if isinstance(made, type) else made


def family(source: Source) -> Literal["adam", "sgd"]:
    """The kind of optimiser at whose usual rates training is foretold."""
    from sigmascope.diagnosis.programs import family_of

    return family_of(source.optimiser)


def program_of(opened: "Model", data: "Data", source: Plan) -> "Program":
    """The user's program, as far as the words of the command line tell of it."""
    from sigmascope.diagnosis import Program

    named = {"momentum": source.momentum, "weight_decay": source.weight_decay}
    options = {k: v for k, v in named.items() if v is not None}
    if source.optimiser is None and (options or source.lr is not None):
        raise gate.Refusal(
            "A rate, momentum or weight decay go with an optimiser: add `--optimizer adam`."
        )
    return Program(
        opened.module,
        data,
        loss_of(source.loss),
        source.optimiser,
        source.lr,
        source.batch,
        source.epochs,
        options,
        total=data.total,
    )


def measure(
    opened: "Model", data: "Data", source: Plan, views: list[View] | None, budget: gate.Budget
) -> "Diagnosis":
    """A diagnosis whose profile knows the names the user gave."""
    from dataclasses import replace

    from sigmascope import diagnosis, survey

    with gate.memory(source.memory), progress_bar() as progress:
        found = diagnosis.diagnose(
            program_of(opened, data, source),
            samples=source.samples,
            views=views or ALL,
            outputs=source.outputs,
            batch_dim=source.batch_dim,
            generator=seeded(source.seed),
            progress=progress,
            fit=not opened.trained if source.fit is None else source.fit,
            budget=budget,
        )
    measured = found.profile
    unfit = [s.why for s in measured.skipped if s.what == diagnosis.rules.UNFIT]
    if unfit and source.loss is None:  # the loss fits whatever can be fitted
        raise gate.Refusal(unfit[0])
    about = {"name": opened.name, "weights": opened.weights, "data": data.name, **measured.about}
    return replace(found, profile=survey.named(measured, about))


def subject_of(opened: "Model", data: "Data", source: Source) -> "Subject":
    """What the theorems are checked on."""
    from sigmascope import probes

    return probes.Subject(
        opened.module,
        data.inputs,
        *task(data, source).values(),
        outputs=source.outputs,
        batch_dim=source.batch_dim,
        generator=seeded(source.seed),
    )

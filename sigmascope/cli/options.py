"""What the commands have in common: the model and the data that the user names."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from sigmascope import gate
from sigmascope.cli.outputs import progress_bar
from sigmascope.cli.ranges import Fitting
from sigmascope.quantities import ALL, View

if TYPE_CHECKING:
    import torch

    from sigmascope.probes import Subject
    from sigmascope.records import Profile
    from sigmascope.sources import Data, Model


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
        optimiser: With which training is foretold: `adam`, or `sgd` with momentum 0.9.
        memory: How much the model and the data may take, e.g. `8GB`; half of the machine's.
    """

    data: str | None = None
    checkpoint: Path | None = None
    samples: Fitting = 128
    folder: Path | None = None
    seed: int = 0
    batch_dim: Fitting = 0
    outputs: Fitting = 16
    optimiser: Literal["adam", "sgd"] = "adam"
    memory: str | None = None

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """What may name a file that is read."""
        return self.data, self.checkpoint


DEFAULT = Source()


def open_named(model: str, source: Source) -> "tuple[Model, Data]":
    """The model and the data that the words of the command line name."""
    from sigmascope import sources

    with gate.memory(source.memory):
        return sources.open_both(
            model,
            data=source.data,
            checkpoint=source.checkpoint,
            samples=source.samples,
            folder=source.folder,
            batch_dim=source.batch_dim,
            generator=seeded(source.seed),
        )


def seeded(seed: int) -> "torch.Generator":
    """A generator of its own, so that a command gives the same numbers every time."""
    import torch

    if not -(2**63) <= seed < 2**63:
        raise gate.Refusal(f"`--seed` must fit 64 bits, got {seed}: take a smaller number.")
    return torch.Generator().manual_seed(seed)


def task(data: "Data") -> dict[str, Any]:
    """What the output is compared with, and how; nothing where the data have no targets."""
    from sigmascope.diagnosis.programs import fitting_loss

    loss = None if data.targets is None else fitting_loss
    return {"targets": data.targets, "loss": loss}


def measure(opened: "Model", data: "Data", source: Source, views: list[View] | None) -> "Profile":
    """A profile that knows the names the user gave."""
    from sigmascope import diagnosis, survey
    from sigmascope.diagnosis.programs import fitting_loss

    with progress_bar() as progress:
        measured = survey.profile(
            opened.module,
            data.inputs,
            **task(data),
            views=views or ALL,
            outputs=source.outputs,
            batch_dim=source.batch_dim,
            generator=seeded(source.seed),
            progress=progress,
        )
    if "setup" in (views or ALL):
        measured = diagnosis.trainability.foretold(
            measured,
            opened.module,
            data.inputs,
            targets=data.targets,
            loss=fitting_loss,
            optimiser=source.optimiser,
            batch_dim=source.batch_dim,
        )
    about = {"name": opened.name, "weights": opened.weights, "data": data.name, **measured.about}
    return survey.named(measured, about)


def subject_of(opened: "Model", data: "Data", source: Source) -> "Subject":
    """What the theorems are checked on."""
    from sigmascope import probes

    return probes.Subject(
        opened.module,
        data.inputs,
        *task(data).values(),
        outputs=source.outputs,
        batch_dim=source.batch_dim,
        generator=seeded(source.seed),
    )

"""A run file as a sink."""

import os
from collections.abc import Mapping, Sequence

from torch import nn
from torch.optim import Optimizer

from sigmascope.gate import Refusal
from sigmascope.probes.execution import layers
from sigmascope.quantities import WATCH
from sigmascope.records import Layer
from sigmascope.store import Run
from sigmascope.watching.looks import Look
from sigmascope.watching.processes import Processes


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
        self._first = {
            "about": dict(about),
            "views": (WATCH,),
            "layers": _layers(model) if not any(True for _ in self._run.layers()) else (),
        }

    def write(self, look: Look) -> None:
        """Append a look; it is in the file when this returns."""
        first, self._first = self._first, {}
        for step, loss in look.losses:
            self._run.add(step=step, readings=[loss])
        self._run.add(
            step=look.step,
            readings=look.readings,
            spectra=look.spectra,
            findings=look.findings,
            skipped=look.skipped,
            **first,
        )

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
    for i, optimizer in enumerate(optimizers):
        name = "optimiser" if len(optimizers) == 1 else f"optimiser {i}"
        words[name] = f"{type(optimizer).__name__}({_settings(optimizer)})"
    return words


def _settings(optimizer: Optimizer) -> str:
    plain = (float, int, bool, tuple)
    return ", ".join(f"{k}={v}" for k, v in optimizer.defaults.items() if isinstance(v, plain))


def _layers(model: nn.Module) -> tuple[Layer, ...]:
    return tuple(
        Layer(name, type(module).__name__, i, _parameters(name, module))
        for i, (name, module) in enumerate(layers(model).items())
    )


def _parameters(name: str, module: nn.Module) -> tuple[str, ...]:
    return tuple(f"{name}.{p}".removeprefix(".") for p, _ in module.named_parameters())


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
        Refusal: As `Run` in the first process; in all others that it could not open the file.
    """
    files, error = list[RunFile](), None
    if path and not processes.rank:
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

"""What a Lightning module trains with: its loss lies inside of `training_step`, and is taken out.

A step runs the module on inputs and compares what comes out with targets. With `forward` replaced
by one that gives an output that is handed in, the step is the loss of that output. That holds where
a step calls the module once and takes the inputs for nothing else, which is tried on a batch.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal, random_states
from sigmascope.models.samples import Batch, as_tensor, chosen
from sigmascope.models.state import still

NAMES = ("loss", "loss_fn", "criterion", "loss_function")  # of a loss that is an attribute
ALIKE = 1e-5  # relative difference of two losses that are one


def parts_of(module: Any, data: Any) -> dict[str, Any]:
    """Loader, loss, optimizer and plan of a Lightning module, as fields of a `Program`.

    Args:
        module: Left as it is, but for what its own hooks do.
        data: The data module, or the module itself where it has its loader.

    Raises:
        Refusal: If it configures no optimizer.
    """
    for name, asked in (("prepare_data", ()), ("setup", ("fit",))):
        if hasattr(data, name):
            getattr(data, name)(*asked)
    loader = data.train_dataloader()
    loss: Any = StepLoss(module, loader)
    unread = ""
    if why := loss.differs():
        named = (getattr(module, name, None) for name in NAMES)
        loss = next((found for found in named if callable(found)), None)
        instead = "the one that fits the targets" if loss is None else "its attribute"
        unread = f"The loss inside of `training_step` was not read: {why}. In its place: {instead}."
    trainer = getattr(module, "_trainer", None)
    found = module.configure_optimizers()
    while isinstance(found, tuple | list | Mapping) and found:  # schedulers stand behind
        found = found.get("optimizer") if isinstance(found, Mapping) else found[0]
    if not isinstance(found, Optimizer):
        raise Refusal(
            "`configure_optimizers` must give an optimizer, a list of them or a mapping, got "
            f"{type(found).__name__}."
        )
    return {
        "model": module,
        "data": loader,
        "loss": loss,
        "optimizer": found,
        "epochs": getattr(trainer, "max_epochs", None) or None,
        "clip": getattr(trainer, "gradient_clip_val", None),
        "unread": unread,
    }


class StepLoss:
    """The loss of a `training_step`, as a function of output and targets."""

    __name__ = "training_step"

    def __init__(self, module: Any, loader: Any) -> None:
        self._module = module
        self._batch = next(iter(loader))

    def __call__(self, output: Tensor, targets: Tensor) -> Tensor:
        """What the step makes of an output.

        Args:
            output: In the place of what the module gives.
            targets: Of as many samples.
        """
        inputs = self._batch[0]
        return self._of(chosen(inputs, torch.arange(len(targets)) % len(inputs)), output, targets)

    def _of(self, inputs: Batch, output: Tensor, targets: Tensor) -> Tensor:
        with _answering(self._module, lambda *_, **__: output):
            return self._step((inputs, targets))

    def differs(self) -> str:
        """Why the step is no such function; empty where it is."""
        pair = isinstance(self._batch, tuple | list) and len(self._batch) == 2
        if not pair or not all(isinstance(part, Tensor) for part in self._batch):
            return "a batch is not a pair of inputs and targets"
        inputs, targets = self._batch
        seen: list[Tensor] = []
        own = self._module.forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            found = own(*args, **kwargs)
            seen.append(as_tensor(found)[0])
            return found

        try:
            with still(self._module), torch.no_grad(), random_states():
                with _answering(self._module, watched):
                    real = float(self._step((inputs, targets)))
                if len(seen) != 1:
                    return f"it calls the module {len(seen)} times"
                again = float(self._of(inputs.flip(0), seen[0], targets))
                other = float(self._of(inputs, 2 * seen[0] + 1, targets))
        except Exception as error:  # noqa: BLE001 (a step may need what only a trainer has)
            return f"it raises {type(error).__name__} without a trainer"
        if not math.isclose(real, again, rel_tol=ALIKE) or other == again:
            return "it depends on more than the output of the module"
        return ""

    def _step(self, batch: tuple[Any, Any]) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `self.log` has no trainer to log to
            found = self._module.training_step(batch, 0)
        return found["loss"] if isinstance(found, Mapping) else found


@contextmanager
def _answering(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """A module that answers with another function inside; its class is as it was."""
    had = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if had is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = had

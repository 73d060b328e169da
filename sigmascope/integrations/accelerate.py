"""Watching in a loop that Accelerate has prepared."""

from typing import Any

try:
    import accelerate as _accelerate
except ImportError as error:
    raise ImportError(
        "Watching with Accelerate needs accelerate. `pip install 'sigmascope[hf]'`, or "
        "call `sigmascope.watch` in a loop of your own, which needs nothing."
    ) from error

from torch import nn
from torch.optim import Optimizer

from sigmascope.integrations.callbacks import Logged
from sigmascope.watching import Watch


def watch(
    accelerator: _accelerate.Accelerator, model: nn.Module, *optimizers: Optimizer, **of: Any
) -> Watch:
    """Watch what `accelerator.prepare` returned.

    Layers are named as in the model that was prepared. Steps are those that the optimizers made:
    none while gradients accumulate, and none where fp16 skipped one. Alarms go to the trackers of
    the accelerator, too, as `alarm/NAME/LAYER`, 1 where one begins and 0 where it ends.

    Args:
        accelerator: Who prepared them.
        model: As prepared, or as it was before.
        optimizers: As prepared, or as they were before.
        of: Keywords of `Watch`; `start` where a run goes on from a checkpoint.

    Returns:
        The watch; `step(loss)` hands it the loss, `close` ends it.

    Raises:
        Refusal: As `Watch`.

    Example:
        >>> watching = watch(accelerator, model, optimizer, run="gpt.run")  # doctest: +SKIP
    """
    alarms = Logged(lambda numbers, step: accelerator.log(numbers, step=step))
    given = {"together": accelerator.num_processes > 1 or None} | of
    given["sinks"] = (*of.get("sinks", ()), alarms)
    return Watch(accelerator.unwrap_model(model), *optimizers, **given)

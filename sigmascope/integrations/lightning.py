"""Watching in Lightning, by either of its names."""

from collections.abc import Collection, Mapping
from typing import Any, final

from torch import Tensor

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise ImportError(
            "Watching in Lightning needs lightning or pytorch-lightning. "
            "`pip install 'sigmascope[lightning]'`, or call `sigmascope.watch` in a loop of your "
            "own, which needs nothing."
        ) from error

from sigmascope.integrations.callbacks import Watching
from sigmascope.watching import Watch


@final
class SigmascopeCallback(Callback):
    """A callback that watches `Trainer.fit`, from the first step to the last or to an error.

    The loss of a step is the mean over its batches, under accumulation and in manual optimisation,
    too, where `training_step` returns it. Alarms go to the trainer's loggers as
    `alarm/NAME/LAYER`, 1 where one begins and 0 where it ends. After a checkpoint steps go on from
    `trainer.global_step`.

    Args:
        stop_on: Names of alarms at which training is to stop, as `trainer.should_stop` does it.
        of: Keywords of `Watch`.

    Raises:
        Refusal: If `Watch` has no such keyword. What fails later is a line of the log.
    """

    def __init__(self, *, stop_on: Collection[str] = (), **of: Any) -> None:
        super().__init__()
        self._watching = Watching(of, stop_on)

    @property
    def watch(self) -> Watch | None:
        """What watches now; None before and after training, and after an error of its own."""
        return self._watching.watch

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        def log(numbers: dict[str, float], step: int) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=step)

        self._watching.begin(pl_module, trainer.optimizers, start=trainer.global_step, log=log)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        watching = self._watching
        with watching.guarded():
            watching.losses.add(_loss(trainer, pl_module, outputs))
        watching.step()
        if watching.stops():
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._watching.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watching.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._watching.end()


def _loss(trainer: Any, module: Any, outputs: Any) -> Tensor | None:
    """What `training_step` returned: in automatic optimisation it comes divided."""
    found = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    if not isinstance(found, Tensor):
        return None
    return found * trainer.accumulate_grad_batches if module.automatic_optimization else found

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
class SigmascopeCallback(Callback):  # pyright: ignore[reportGeneralTypeIssues] (of either package)
    """A callback that watches `Trainer.fit`, from the first step to the last or to an error.

    The loss of a step is the mean over its batches; in manual optimisation it is what
    `training_step` returns. Alarms go to the trainer's loggers as
    `alarm/NAME/LAYER`, 1 where one begins and 0 where it ends. After a checkpoint steps go on from
    `trainer.global_step`; with several optimizers, which it counts together, from the last step of
    the run file.

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

        one = len(trainer.optimizers) == 1  # else the trainer counts the steps of all of them
        start = trainer.global_step if one or not trainer.global_step else None
        of = {"start": start, "ranks": trainer.world_size}
        self._watching.begin(pl_module, trainer.optimizers, log=log, **of)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Tensor) -> None:
        if pl_module.automatic_optimization:  # it comes divided, and scaled for fp16
            with self._watching.guarded():
                scaler = getattr(trainer.precision_plugin, "scaler", None)
                scale = 1.0 if scaler is None else scaler.get_scale()
                self._watching.losses.add(loss.detach() * trainer.accumulate_grad_batches / scale)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self._watching.step()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not pl_module.automatic_optimization:
            with self._watching.guarded():
                loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
                self._watching.losses.add(loss)
            self._watching.step()
        if self._watching.stops():
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._watching.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watching.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._watching.end()

"""Watching in the Trainer of Hugging Face."""

import weakref
from collections.abc import Collection, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "Watching in the Trainer needs transformers. `pip install 'sigmascope[hf]'`, or "
        "call `sigmascope.watch` in a loop of your own, which needs nothing."
    ) from error

from sigmascope.integrations.callbacks import LastLoss, Watching
from sigmascope.watching import Watch


@final
class SigmascopeCallback(TrainerCallback):
    """A callback that watches `Trainer.train`.

    The loss of a step is what the model returned, over the batches that were accumulated; where
    the Trainer computes it another way (`compute_loss_func`, label smoothing, a compiled model or
    `DataParallel`) it is what the Trainer logs, at the steps where it does. Alarms are entered in
    `trainer.state.log_history` as `alarm/NAME/LAYER`, 1 where one begins and 0 where it ends, and
    stand in what is logged next. After a checkpoint steps go on from `state.global_step`.

    The Trainer tells nobody when training fails: then the watch ends with the next training, with
    the Trainer, or with `close`.

    Args:
        stop_on: Names of alarms at which training is to stop.
        of: Keywords of `Watch`.

    Raises:
        Refusal: If `Watch` has no such keyword. What fails later is a line of the log.
    """

    def __init__(self, *, stop_on: Collection[str] = (), **of: Any) -> None:
        self._watching = Watching(of, stop_on)
        self._told: dict[str, float] = {}
        self._heard = False
        weakref.finalize(self, self._watching.end)

    @property
    def watch(self) -> Watch | None:
        """What watches now; None before and after training, and after an error of its own."""
        return self._watching.watch

    def close(self) -> None:
        """End the watch of a training that failed."""
        self._watching.end()

    def on_train_begin(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        told = self._told

        def log(numbers: dict[str, float], step: int) -> None:
            told.update(numbers)
            state.log_history.append({**numbers, "step": step})

        watching, model = self._watching, now["model"]
        of = {"start": state.global_step, "ranks": args.world_size}
        watching.begin(model, [now["optimizer"]], log=log, **of)
        with watching.guarded():
            # in a compiled model or its replicas, a hook of ours would be traced or lost
            if watching.watch is not None and not args.torch_compile and args.n_gpu <= 1:
                alike = getattr(args, "average_tokens_across_devices", False)
                heard = _Heard(watching.losses, ranks=args.world_size if alike else 1)
                hook = model.register_forward_hook(heard, with_kwargs=True)
                watching.hooks.append(hook)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        self._heard = self._watching.step()

    def on_step_end(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        if self._watching.stops():
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **now: Any) -> None:
        watching = self._watching
        with watching.guarded():
            logs = {} if logs is None else logs
            if not self._heard:  # the model told none
                watching.losses.add(logs.get("loss"))
                watching.step()
            logs.update(self._told)
            self._told.clear()

    def on_train_end(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        self._watching.end()


class _Heard:
    """A hook that hears the loss that a model returns while it trains.

    Args:
        losses: Where it goes.
        ranks: By how many a loss over all tokens of all ranks was divided too often.
    """

    def __init__(self, losses: LastLoss, *, ranks: int) -> None:
        self._losses, self._ranks = losses, ranks

    def __call__(self, module: nn.Module, _: Any, given: Mapping[str, Any], output: Any) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        first = output[0] if isinstance(output, tuple) and output and "labels" in given else None
        loss = output.get("loss") if isinstance(output, Mapping) else first
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self._losses.summed = given.get("num_items_in_batch") is not None
            self._losses.add(loss * self._ranks if self._losses.summed else loss)

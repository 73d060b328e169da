"""One forward pass without gradients, with all that is read on the way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.probes.batches import Batch, as_tensor, call, tensors
from sigmascope.probes.normalisers import Statisticians
from sigmascope.probes.refusals import Refusal, failure
from sigmascope.probes.stillness import still
from sigmascope.probes.tapes import Call, recording


@dataclass(frozen=True, slots=True)
class Pass:
    """What one run of a model gave.

    Attributes:
        calls: Of the layers, in the order in which they end.
        frozen: Statistics of the batch normalisers that use those of the batch.
        output: The output tensor that is studied.
        rule: How it was chosen from what the model returns.
        entries: How many numbers layers and normalisers wrote.
    """

    calls: tuple[Call, ...]
    frozen: Statisticians
    output: Tensor
    rule: str
    entries: int


def forward_pass(
    model: nn.Module, batch: Batch, layers: dict[str, nn.Module], listened: dict[str, nn.Module]
) -> Pass:
    """Run a model held still; twice where it changes in place what was recorded.

    Args:
        model: The model.
        batch: What it is run on.
        layers: Whose calls are kept.
        listened: What is recorded: layers and normalisers.

    Raises:
        Refusal: If the model raises anything, with what it was given.
    """
    for copy in (False, True):
        frozen = Statisticians()
        with (
            still(model),
            torch.no_grad(),
            recording(listened, copy=copy, rewrite=frozen.rewrite) as tape,
        ):
            output, rule = as_tensor(called(model, batch))
        if not any(c.spoiled for c in tape.calls):
            break
    kept = set(layers.values())
    wrote = sum(c.output.numel() for c in tape.calls)
    calls = tuple(c for c in tape.calls if c.module in kept)
    return Pass(calls, frozen, output.detach(), rule, wrote)


def called(model: nn.Module, batch: Batch, *, run: Callable[..., Any] | None = None) -> Any:
    """The output of one call; whatever the model raises becomes a refusal that shows the batch.

    Args:
        model: What is named in the refusal.
        batch: What it is run on.
        run: What is called in its place.
    """
    try:
        return call(run or model, batch)
    except Refusal:
        raise
    except (Exception, SystemExit) as error:  # a user's forward may raise anything
        raise Refusal(failure(model, tuple(tensors(batch)), error)) from error

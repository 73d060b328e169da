"""Outputs in evaluation mode that are another draw each time.

`F.dropout(x, p)` drops in evaluation mode, too: its `training` is true where nothing is said, and a
module that calls it must hand its own mode on. The invariant: what is told is the difference of two
runs on the same batch; where it comes from is told only of functions that know a mode.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from sigmascope.models.layers import called, running_line
from sigmascope.models.samples import Batch, as_tensor
from sigmascope.models.state import still

# functions that draw where they are told to train, with the place of that among their arguments
MODES = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), 2),
    **dict.fromkeys(("alpha_dropout", "feature_dropout", "feature_alpha_dropout"), 2),
    "rrelu": 3,
}
ATTENTION = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True)
class RandomOutputs:
    """Outputs that differ from run to run.

    Attributes:
        change: Root mean square of the difference of two runs, over that between samples.
        function: What draws because it is not told the mode; empty where that is not known.
        place: File and line where it is called.
    """

    change: float
    function: str = ""
    place: str = ""


class _Heard(TorchFunctionMode):
    """Where a function is told to train while its model is in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.found: tuple[str, str] = ("", "")

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        drawn = False
        if name in MODES:
            at = MODES[name]
            told = kwargs.get("training", kwargs.get("train"))
            drawn = bool(args[at] if told is None and len(args) > at else told)
        elif name == ATTENTION:
            drawn = (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0
        if drawn and not self.found[0]:
            self.found = name, running_line()
        return func(*args, **kwargs)


def random_outputs(model: nn.Module, batch: Batch) -> RandomOutputs | None:
    """How far outputs in evaluation mode differ from run to run; None where they do not.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: two forward passes.
    """
    with still(model), torch.no_grad():
        with _Heard() as heard:
            first = as_tensor(called(model, batch))[0].double()
        second = as_tensor(called(model, batch))[0].double()
    moved = float((first - second).square().mean().sqrt())
    spread = float((first - first.mean(0)).square().mean().sqrt())
    if not moved > 0:
        return None
    return RandomOutputs(moved / spread if spread > 0 else 1.0, *heard.found)

"""Modules in place of a layer that remedies add something to."""

from typing import Any

from torch import nn


class Around(nn.Module):
    """A layer with something before or after it, in its place.

    Attributes:
        layer: The layer.
    """

    layer: nn.Module

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def __getattr__(self, name: str) -> Any:
        """The layer's, for code that looks at its weight, its sizes or what else it has."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            layer = self.__dict__.get("_modules", {}).get("layer")
            if layer is None or name.startswith("_"):
                raise
            return getattr(layer, name, None) if name == "bias" else getattr(layer, name)


def no_fast_path(model: nn.Module) -> None:
    """Have torch's encoder layers call the layers that are wrapped in them, in evaluation too.

    Their fast path reads `linear1.weight` and never calls `linear1`, so what was put around it
    would be left out wherever no gradient is taken.
    """
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            wrapped = (isinstance(m, Around) for m in (module.linear1, module.linear2))
            if any(wrapped):
                module.activation_relu_or_gelu = 0  # the fast path is for 1 (ReLU) and 2 (GELU)

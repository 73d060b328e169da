"""Modules in place of a layer that remedies add something to."""

from torch import Tensor, nn


class Around(nn.Module):
    """A layer with something before or after it, in its place.

    Attributes:
        layer: The layer.
    """

    layer: nn.Module

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    @property
    def weight(self) -> Tensor:
        """The layer's, for code that looks at it."""
        return self.layer.get_parameter("weight")

    @property
    def bias(self) -> Tensor | None:
        """The layer's, for code that looks at it."""
        return dict(self.layer.named_parameters()).get("bias")

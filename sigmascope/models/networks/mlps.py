"""Multilayer perceptrons."""

import math

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.models.networks.layers import (
    Activation,
    Init,
    Norm,
    activation_layer,
    linear,
    norm_layer,
)
from sigmascope.models.networks.refusals import require_counts, require_options


class Block(nn.Module):
    """One hidden layer: a linear (or convolution) layer, its norm, its activation.

    Parts that are not there are not modules either, so that they do not show up in reports.

    Args:
        gamma: With a number, the block returns `x + gamma * block(x)`.
    """

    def __init__(self, *parts: tuple[str, nn.Module | None], gamma: float | None = None) -> None:
        super().__init__()
        self.gamma = gamma
        for name, part in parts:
            if part is not None:
                self.add_module(name, part)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the parts in order, and add the skip connection where there is one."""
        output = input
        for part in self.children():
            output = part(output)
        return output if self.gamma is None else input + self.gamma * output

    def extra_repr(self) -> str:
        return "" if self.gamma is None else f"gamma={self.gamma}"


class MLP(nn.Module):
    """A chain of hidden blocks between an optional input layer and a readout.

    Attributes:
        input: Linear layer to the width of the residual blocks, or nothing.
        hidden: The blocks, in order; step through them to look at every layer.
        readout: The last linear layer, without activation.
    """

    def __init__(self, *, input: nn.Linear | None, hidden: list[Block], readout: nn.Linear) -> None:
        super().__init__()
        if input is not None:
            self.input = input
        self.hidden = nn.Sequential(*hidden)
        self.readout = readout
        self._has_input = input is not None

    def forward(self, input: Tensor) -> Tensor:
        """Outputs `[n, outputs]` of inputs `[n, ...]`, which are flattened first."""
        x = input.flatten(1)
        if self._has_input:
            x = self.input(x)
        return self.readout(self.hidden(x))


def mlp(
    *,
    inputs: int | tuple[int, ...],
    outputs: int,
    depth: int = 4,
    width: int = 128,
    activation: Activation = "relu",
    norm: Norm = "none",
    init: Init = "torch",
    bias: bool = True,
    residual: float | None = None,
    eps: float = 1e-5,
    generator: torch.Generator | None = None,
) -> MLP:
    """A multilayer perceptron: `depth` times (linear, norm, activation), then a linear readout.

    Args:
        inputs: Numbers in one sample, or the shape of one sample, which is flattened.
        outputs: Outputs of the readout.
        depth: Hidden layers; 0 gives a linear model.
        width: Units of each hidden layer.
        activation: After the norm.
        norm: After the linear layer, before the activation, as Daneshmand et al. 2020 have it.
        init: How the weights are drawn, see `layers.draw`.
        bias: Whether the linear layers have one.
        residual: With a number `gamma`, each hidden layer returns `x + gamma * block(x)`; where
            `inputs` differs from `width`, a linear layer comes first.
        eps: Of the norm.
        generator: Source of the weights; torch's global one when there is none.

    Returns:
        The network, in train mode, with modules `hidden.0.linear`, `hidden.0.norm`,
        `hidden.0.activation`, ..., `readout`.

    Raises:
        Refusal: If a count is not positive or an option is not among those listed.
    """
    sizes = inputs if isinstance(inputs, tuple) else (inputs,)
    require_counts(outputs=outputs, width=width, **{f"inputs[{i}]": n for i, n in enumerate(sizes)})
    require_counts(least=0, depth=depth)
    require_options(activation=activation, norm=norm, init=init, eps=eps)
    if residual is not None and not math.isfinite(residual):
        raise Refusal(f"`residual` must be a finite number or none, got {residual}.")

    def layer(fan_in: int, fan_out: int) -> nn.Linear:
        return linear(fan_in, fan_out, init=init, bias=bias, generator=generator)

    width_in = math.prod(sizes)
    first = layer(width_in, width) if residual is not None and width_in != width else None
    hidden = [
        Block(
            ("linear", layer(width if i or first else width_in, width)),
            ("norm", norm_layer(norm, width, eps=eps, images=False)),
            ("activation", activation_layer(activation)),
            gamma=residual,
        )
        for i in range(depth)
    ]
    return MLP(
        input=first, hidden=hidden, readout=layer(width if depth or first else width_in, outputs)
    )

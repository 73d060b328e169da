"""Convolutional networks at the size of CIFAR-10: residual, and plain."""

import math
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models.networks.layers import (
    Activation,
    Init,
    Norm,
    activation_layer,
    convolution,
    linear,
    norm_layer,
)
from sigmascope.models.networks.mlps import Block
from sigmascope.models.networks.refusals import require_counts, require_image, require_options

# ------------------------------------------------------------------------------
# Residual convolutional networks at the size of CIFAR-10.


class ResidualBlock(nn.Module):
    """Two convolutions beside a skip connection, then the activation.

    Where the block halves the image and doubles the channels, the skip connection takes every
    second pixel and pads with zero channels, so that it has no parameters.

    Source:
        He et al. 2016a, Fig. 2 and Sec. 3.3, option A.
    """

    def __init__(
        self, *, first: Block, second: Block, activation: nn.Module | None, residual: float = 1.0
    ) -> None:
        super().__init__()
        self.residual = residual
        self.first = first
        self.second = second
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        """`activation(residual * skip(x) + second(first(x)))`."""
        branch = self.second(self.first(input))
        stride = -(-input.shape[2] // branch.shape[2])
        skip = input[:, :, ::stride, ::stride]
        skip = F.pad(skip, (0, 0, 0, 0, 0, branch.shape[1] - skip.shape[1]))
        output = self.residual * skip + branch
        return output if self.activation is None else self.activation(output)


class ResNet(nn.Module):
    """A stem, three stages of residual blocks, a global average and a readout."""

    def __init__(self, *, stem: Block, stages: list[nn.Sequential], readout: nn.Linear) -> None:
        super().__init__()
        self.stem = stem
        self.stages = nn.Sequential(*stages)
        self.readout = readout

    def forward(self, input: Tensor) -> Tensor:
        """Outputs `[n, outputs]` of images `[n, channels, height, width]`."""
        return self.readout(self.stages(self.stem(input)).mean((2, 3)))


def resnet(
    *,
    inputs: tuple[int, ...],
    outputs: int,
    depth: int = 20,
    width: int = 16,
    activation: Activation = "relu",
    norm: Norm = "batch",
    init: Init = "he",
    eps: float = 1e-5,
    residual: float = 1.0,
    generator: torch.Generator | None = None,
) -> ResNet:
    """A residual network of `depth = 6n + 2` weighted layers, as made for CIFAR-10.

    Args:
        inputs: `(channels, height, width)` of one image, 4 x 4 pixels or more.
        outputs: Outputs of the readout.
        depth: 8, 14, 20, 26, 32, ...: one convolution, three stages of `n` blocks, the readout.
        width: Channels of the first stage; the others have twice and four times as many.
        activation: After each norm, and after each sum.
        norm: After each convolution; `"layer"` is over channels and positions together.
        init: How the weights are drawn, see `layers.draw`.
        eps: Of the norm.
        residual: Strength of the skip connections; 0 gives a plain convolutional network.
        generator: Source of the weights; torch's global one when there is none.

    Returns:
        The network, in train mode, with modules `stem.conv`, `stages.0.0.first.conv`, ...,
        `readout`. Convolutions have a bias where no norm follows.

    Raises:
        Refusal: If the inputs are not images, a count is too small or an option is unknown.

    Source:
        He et al. 2016a, Sec. 4.2.
    """
    channels, _, _ = require_image(inputs)
    require_counts(outputs=outputs, width=width, depth=depth)
    require_options(activation=activation, norm=norm, init=init, eps=eps)
    if depth < 8 or depth % 6 != 2:
        raise Refusal(f"`depth` must be 6n + 2 (8, 14, 20, 26, 32, ...), got {depth}.")
    if not math.isfinite(residual):
        raise Refusal(f"`residual` must be a finite number, got {residual}.")

    drawn = partial(convolution, init=init, bias=norm == "none", generator=generator)

    def block(fan_in: int, fan_out: int, stride: int, *, active: bool = True) -> Block:
        return Block(
            ("conv", drawn(fan_in, fan_out, stride=stride)),
            ("norm", norm_layer(norm, fan_out, eps=eps, images=True)),
            ("activation", activation_layer(activation) if active else None),
        )

    def pair(fan_in: int, fan_out: int) -> ResidualBlock:
        first = block(fan_in, fan_out, 1 if fan_in == fan_out else 2)
        second, last = block(fan_out, fan_out, 1, active=False), activation_layer(activation)
        return ResidualBlock(first=first, second=second, activation=last, residual=residual)

    stem, stages = block(channels, width, 1), []  # drawn in this order
    for before, out in pairwise((width, width, 2 * width, 4 * width)):
        fans = [before] + [out] * (depth // 6 - 1)
        stages.append(nn.Sequential(*(pair(fan, out) for fan in fans)))
    readout = linear(4 * width, outputs, init=init, bias=True, generator=generator)
    return ResNet(stem=stem, stages=stages, readout=readout)


# ------------------------------------------------------------------------------
# Plain convolutional networks.


class VGG(nn.Module):
    """Stages of convolutions with pooling between them, a global average and a readout."""

    def __init__(self, *, stages: list[nn.Sequential], readout: nn.Linear) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.pool = nn.MaxPool2d(2)
        self.readout = readout

    def forward(self, input: Tensor) -> Tensor:
        """Outputs `[n, outputs]` of images `[n, channels, height, width]`."""
        x = input
        for number, stage in enumerate(self.stages):
            x = stage(x if number == 0 else self.pool(x))
        return self.readout(x.mean((2, 3)))


def vgg(
    *,
    inputs: tuple[int, ...],
    outputs: int,
    depth: int = 6,
    width: int = 32,
    activation: Activation = "relu",
    norm: Norm = "none",
    init: Init = "he",
    eps: float = 1e-5,
    generator: torch.Generator | None = None,
) -> VGG:
    """A small VGG: three stages of 3 x 3 convolutions, halving the image between them.

    Args:
        inputs: `(channels, height, width)` of one image, 4 x 4 pixels or more.
        outputs: Outputs of the readout.
        depth: Convolution layers, 3 or more, spread over the stages as evenly as they go.
        width: Channels of the first stage; the others have twice and four times as many.
        activation: After the norm.
        norm: After the convolution; `"layer"` is over channels and positions together.
        init: How the weights are drawn, see `layers.draw`.
        eps: Of the norm.
        generator: Source of the weights; torch's global one when there is none.

    Returns:
        The network, in train mode, with modules `stages.0.0.conv`, ..., `readout`. Convolutions
        have a bias where no norm follows.

    Raises:
        Refusal: If the inputs are not images, a count is too small or an option is unknown.

    Source:
        Simonyan & Zisserman 2015, at the size of CIFAR-10, with a global average before the
        readout in place of the fully connected layers.
    """
    channels, _, _ = require_image(inputs)
    require_counts(outputs=outputs, width=width)
    require_counts(least=3, depth=depth)
    require_options(activation=activation, norm=norm, init=init, eps=eps)

    def block(fan_in: int, fan_out: int) -> Block:
        conv = convolution(fan_in, fan_out, init=init, bias=norm == "none", generator=generator)
        return Block(
            ("conv", conv),
            ("norm", norm_layer(norm, fan_out, eps=eps, images=True)),
            ("activation", activation_layer(activation)),
        )

    stages = []
    for stage, out in enumerate((width, 2 * width, 4 * width)):
        count = depth // 3 + (stage < depth % 3)
        stages.append(nn.Sequential(*(block(out if i else channels, out) for i in range(count))))
        channels = out
    readout = linear(channels, outputs, init=init, bias=True, generator=generator)
    return VGG(stages=stages, readout=readout)

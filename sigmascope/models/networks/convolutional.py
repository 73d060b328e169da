"""Convolutional networks at the size of CIFAR-10: residual, and plain."""

import math
from collections.abc import Sequence
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
    """Two convolutions, or three, beside a skip connection, then the activation.

    Where the block halves the image and doubles the channels, the skip connection takes every
    second pixel and pads with zero channels, so that it has no parameters; unless a `shortcut` is
    given, which is then what skips.

    Source:
        He et al. 2016a, Fig. 2, Fig. 5 and Sec. 3.3, options A and B.
    """

    def __init__(
        self,
        *,
        first: Block,
        second: Block,
        third: Block | None = None,
        shortcut: Block | None = None,
        activation: nn.Module | None,
        residual: float = 1.0,
    ) -> None:
        super().__init__()
        self.residual = residual
        self.first = first
        self.second = second
        if third is not None:
            self.third = third
        if shortcut is not None:
            self.shortcut = shortcut
        self.activation = activation
        self._has_third, self._has_shortcut = third is not None, shortcut is not None

    def forward(self, input: Tensor) -> Tensor:
        """`activation(residual * skip(x) + second(first(x)))`, or with a third after the second."""
        branch = self.second(self.first(input))
        branch = self.third(branch) if self._has_third else branch
        if self._has_shortcut:
            skip = self.shortcut(input)
        else:
            stride = -(-input.shape[2] // branch.shape[2])
            skip = input[:, :, ::stride, ::stride]
            skip = F.pad(skip, (0, 0, 0, 0, 0, branch.shape[1] - skip.shape[1]))
        output = self.residual * skip + branch
        return output if self.activation is None else self.activation(output)


class ResNet(nn.Module):
    """A stem, stages of residual blocks, a global average and a readout."""

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


def resnet50(
    *,
    inputs: tuple[int, ...],
    outputs: int,
    width: int = 64,
    activation: Activation = "relu",
    norm: Norm = "batch",
    init: Init = "he",
    eps: float = 1e-5,
    residual: float = 1.0,
    generator: torch.Generator | None = None,
) -> ResNet:
    """ResNet-50 for images of 32 x 32 pixels: bottlenecks in stages of 3, 4, 6 and 3.

    The stem is one 3 x 3 convolution of stride 1, and no pooling follows it, where the form for
    ImageNet has 7 x 7, stride 2 and a max-pool. At width 64, of 3 channels and 10 classes, it has
    23 520 842 parameters.

    Args:
        inputs: `(channels, height, width)` of one image, 4 x 4 pixels or more.
        outputs: Outputs of the readout.
        width: Of the first stage's bottlenecks, which write four times as many channels; it
            doubles with each stage.
        activation: After each norm but the last of a block, and after each sum.
        norm: After each convolution; `"layer"` is over channels and positions together.
        init: How the weights are drawn, see `layers.draw`.
        eps: Of the norm.
        residual: Strength of the skip connections, projections included.
        generator: Source of the weights; torch's global one when there is none.

    Returns:
        The network, in train mode, with modules `stem.conv`, `stages.0.0.first.conv`,
        `stages.0.0.shortcut.conv`, ..., `readout`. Convolutions have a bias where no norm follows.

    Raises:
        Refusal: If the inputs are not images, a count is too small or an option is unknown.

    Source:
        He et al. 2016a, Table 1 and Sec. 3.3, option B, with the stride in the 3 x 3 convolution
        as in torchvision; the stem for CIFAR-10 as in pytorch-cifar (Liu 2017).
    """
    channels, _, _ = require_image(inputs)
    require_counts(outputs=outputs, width=width)
    require_options(activation=activation, norm=norm, init=init, eps=eps)
    if not math.isfinite(residual):
        raise Refusal(f"`residual` must be a finite number, got {residual}.")

    def block(fan_in: int, fan_out: int, size: int, stride: int = 1, *, active: bool) -> Block:
        conv = convolution(
            fan_in, fan_out, size=size, stride=stride, init=init, bias=norm == "none",
            generator=generator,
        )  # fmt: skip
        return Block(
            ("conv", conv),
            ("norm", norm_layer(norm, fan_out, eps=eps, images=True)),
            ("activation", activation_layer(activation) if active else None),
        )

    def bottleneck(fan_in: int, narrow: int, stride: int) -> ResidualBlock:
        return ResidualBlock(
            first=block(fan_in, narrow, 1, active=True),
            second=block(narrow, narrow, 3, stride, active=True),
            third=block(narrow, 4 * narrow, 1, active=False),
            shortcut=None
            if (fan_in, stride) == (4 * narrow, 1)
            else block(fan_in, 4 * narrow, 1, stride, active=False),
            activation=activation_layer(activation),
            residual=residual,
        )

    stem, stages, before = block(channels, width, 3, active=True), [], width
    for number, count in enumerate((3, 4, 6, 3)):
        narrow, stride = width * 2**number, 2 if number else 1
        blocks = [bottleneck(before, narrow, stride)]
        blocks += [bottleneck(4 * narrow, narrow, 1) for _ in range(count - 1)]
        stages.append(nn.Sequential(*blocks))
        before = 4 * narrow
    readout = linear(before, outputs, init=init, bias=True, generator=generator)
    return ResNet(stem=stem, stages=stages, readout=readout)


# ------------------------------------------------------------------------------
# Plain convolutional networks.


class VGG(nn.Module):
    """Stages of convolutions with pooling between them, a global average and a readout.

    Args:
        pooled_last: Whether it is pooled after the last stage, too.
    """

    def __init__(
        self, *, stages: list[nn.Sequential], readout: nn.Linear, pooled_last: bool = False
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.pool = nn.MaxPool2d(2)
        self.readout = readout
        self._pooled_last = pooled_last

    def forward(self, input: Tensor) -> Tensor:
        """Outputs `[n, outputs]` of images `[n, channels, height, width]`."""
        x = input
        for number, stage in enumerate(self.stages):
            x = stage(x if number == 0 else self.pool(x))
        x = self.pool(x) if self._pooled_last else x
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
    sizes = [(depth // 3 + (stage < depth % 3), 2**stage * width) for stage in range(3)]
    return _plain(
        channels, sizes, outputs, activation=activation, norm=norm, init=init, eps=eps,
        generator=generator,
    )  # fmt: skip


def vgg19(
    *,
    inputs: tuple[int, ...],
    outputs: int,
    width: int = 64,
    activation: Activation = "relu",
    norm: Norm = "none",
    init: Init = "he",
    eps: float = 1e-5,
    generator: torch.Generator | None = None,
) -> VGG:
    """VGG19 for images of 32 x 32 pixels: its sixteen convolutions, five poolings, one readout.

    The poolings leave one pixel of 32 x 32, which a single linear layer reads in the place of
    ImageNet's three. At width 64, of 3 channels and 10 classes, it has 20 029 514 parameters
    without a norm, and 20 035 018 with one, whose convolutions have no bias.

    Args:
        inputs: `(channels, height, width)` of one image, 32 x 32 pixels or more.
        outputs: Outputs of the readout.
        width: Channels of the first stage; the others have 2, 4, 8 and 8 times as many.
        activation: After the norm.
        norm: After the convolution; `"layer"` is over channels and positions together.
        init: How the weights are drawn, see `layers.draw`.
        eps: Of the norm.
        generator: Source of the weights; torch's global one when there is none.

    Returns:
        The network, in train mode, with modules `stages.0.0.conv`, ..., `readout`. Convolutions
        have a bias where no norm follows.

    Raises:
        Refusal: If the inputs are not such images, a count is too small or an option is unknown.

    Source:
        Simonyan & Zisserman 2015, Table 1, column E; the readout for CIFAR-10 as in pytorch-cifar
        (Liu 2017), which keeps the biases before its norm.
    """
    channels, height, side = require_image(inputs)
    if min(height, side) < 32:
        raise Refusal(
            f"`inputs` must be images of 32 x 32 pixels or more, got {height} x {side}: VGG19 "
            "halves the image five times. For smaller images use `vgg`."
        )
    require_counts(outputs=outputs, width=width)
    require_options(activation=activation, norm=norm, init=init, eps=eps)
    sizes = [(n, times * width) for n, times in ((2, 1), (2, 2), (4, 4), (4, 8), (4, 8))]
    return _plain(
        channels, sizes, outputs, activation=activation, norm=norm, init=init, eps=eps,
        pooled_last=True, generator=generator,
    )  # fmt: skip


def _plain(
    channels: int,
    sizes: Sequence[tuple[int, int]],
    outputs: int,
    *,
    activation: Activation,
    norm: Norm,
    init: Init,
    eps: float,
    generator: torch.Generator | None,
    pooled_last: bool = False,
) -> VGG:
    """Stages of so many 3 x 3 convolutions to so many channels, each with norm and activation."""

    def block(fan_in: int, fan_out: int) -> Block:
        conv = convolution(fan_in, fan_out, init=init, bias=norm == "none", generator=generator)
        return Block(
            ("conv", conv),
            ("norm", norm_layer(norm, fan_out, eps=eps, images=True)),
            ("activation", activation_layer(activation)),
        )

    stages = []
    for count, out in sizes:
        stages.append(nn.Sequential(*(block(out if i else channels, out) for i in range(count))))
        channels = out
    readout = linear(channels, outputs, init=init, bias=True, generator=generator)
    return VGG(stages=stages, readout=readout, pooled_last=pooled_last)

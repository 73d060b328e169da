"""Plain convolutional networks."""

import torch
from torch import Tensor, nn

from sigmascope.networks.layers import Activation, Init, activation_layer, convolution, linear
from sigmascope.networks.mlps import Block
from sigmascope.networks.norms import Norm, norm_layer
from sigmascope.networks.refusals import require_counts, require_image, require_options


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
        ValueError: If the inputs are not images, a count is too small or an option is unknown.

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

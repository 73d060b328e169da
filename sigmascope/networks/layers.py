"""Layers and activations, drawn from a generator that is passed in."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal["relu", "leaky", "abs", "tanh", "gelu", "linear"]
Init = Literal["torch", "he", "xavier", "orthogonal", "asymmetric"]


class Abs(nn.Module):
    """Absolute value of each entry."""

    def forward(self, input: Tensor) -> Tensor:
        """`|x|`, of the same shape."""
        return input.abs()


ENTRYWISE = (
    Abs,
    nn.CELU,
    nn.ELU,
    nn.GELU,
    nn.Hardsigmoid,
    nn.Hardswish,
    nn.Hardtanh,
    nn.LeakyReLU,
    nn.LogSigmoid,
    nn.Mish,
    nn.PReLU,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Softplus,
    nn.Softsign,
    nn.Tanh,
)


def activation_layer(kind: Activation) -> nn.Module | None:
    """The module for `kind`, or nothing for `"linear"`."""
    kinds = {"relu": nn.ReLU, "leaky": nn.LeakyReLU, "abs": Abs, "tanh": nn.Tanh, "gelu": nn.GELU}
    return kinds[kind]() if kind in kinds else None


def is_activation(module: nn.Module) -> bool:
    """Whether a module applies one function to every entry."""
    return isinstance(module, ENTRYWISE)


def linear(
    inputs: int, outputs: int, *, init: Init, bias: bool, generator: torch.Generator | None
) -> nn.Linear:
    """A linear layer drawn from `generator`."""
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta")
    _give_room(layer)
    draw(layer.weight, layer.bias, init=init, generator=generator)
    return layer


def convolution(
    inputs: int,
    outputs: int,
    *,
    init: Init,
    bias: bool,
    stride: int = 1,
    generator: torch.Generator | None,
) -> nn.Conv2d:
    """A 3 x 3 convolution that keeps the size of the image (up to its stride)."""
    layer = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=bias, device="meta")
    _give_room(layer)
    draw(layer.weight, layer.bias, init=init, generator=generator)
    return layer


def _give_room(layer: nn.Module) -> None:
    """Storage for a layer that was made without, its weights still to be drawn.

    The constructor would draw them from torch's global generator; `to_empty` would load sympy.
    """
    for name, parameter in layer.named_parameters():
        room = torch.empty(parameter.shape, dtype=parameter.dtype)
        setattr(layer, name, nn.Parameter(room))


@torch.no_grad()
def draw(
    weight: Tensor, bias: Tensor | None, *, init: Init, generator: torch.Generator | None
) -> None:
    """Fill a weight `[out, in, ...]` and its bias in place.

    `"torch"`: both uniform in `±1/sqrt(fan_in)`, PyTorch's own default. `"he"`: normal of variance
    `2/fan_in`. `"xavier"`: uniform of variance `2/(fan_in + fan_out)`. `"orthogonal"`: orthonormal
    rows or columns. `"asymmetric"`: uniform in `[0, 2/sqrt(fan_in)]`, which has the variance of
    `"torch"` and a positive mean. The bias is zero except for `"torch"`.

    Source:
        He et al. 2015, Eq. (10); Glorot & Bengio 2010, Eq. (16); Saxe et al. 2014 for orthogonal;
        Daneshmand et al. 2020, Sec. 2, for asymmetric.
    """
    bound = 1 / math.sqrt(weight[0].numel())
    if init == "torch":
        weight.uniform_(-bound, bound, generator=generator)
    elif init == "he":
        weight.normal_(0, math.sqrt(2) * bound, generator=generator)
    elif init == "xavier":
        nn.init.xavier_uniform_(weight, generator=generator)
    elif init == "orthogonal":
        nn.init.orthogonal_(weight, generator=generator)
    else:
        weight.uniform_(0, 2 * bound, generator=generator)
    if bias is not None and init == "torch":
        bias.uniform_(-bound, bound, generator=generator)
    elif bias is not None:
        bias.zero_()

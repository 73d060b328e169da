"""Layers, activations and normalisers, drawn from a generator that is passed in."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.core.guard import Refusal

# ------------------------------------------------------------------------------
# Layers and activations, drawn from a generator that is passed in.


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
    size: int = 3,
    stride: int = 1,
    generator: torch.Generator | None,
) -> nn.Conv2d:
    """A convolution of odd size that keeps the size of the image (up to its stride)."""
    layer = nn.Conv2d(
        inputs, outputs, size, stride=stride, padding=size // 2, bias=bias, device="meta"
    )
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


# ------------------------------------------------------------------------------
# Normalisation over the batch, with and without centring.


Norm = Literal["none", "batch", "batch-uncentred", "layer"]


class UncentredBatchNorm(_BatchNorm):
    """Batch normalisation that divides by the root mean square and subtracts nothing.

    Each channel `x` becomes `x / sqrt(mean(x^2) + eps) * weight + bias`, the mean over the batch
    (and over positions). In eval mode the running mean square takes the place of the batch's; it
    is kept in `running_var`, and `running_mean` stays zero, so that whatever reads the statistics
    of a BatchNorm reads the right ones here. No `n / (n - 1)` correction is made: none is due
    where no mean was estimated.

    Args:
        num_features: Channels.
        eps: Added to the mean square. Zero is allowed, and is what the theory speaks of; a channel
            that is zero on the whole batch is then refused.

    Source:
        Daneshmand et al. 2020, Eq. (2).
    """

    def statistics(
        self, x: Float[Tensor, "n channels *positions"]
    ) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        """Mean and variance that normalise the batch `x` in train mode; the mean is zero.

        Returns:
            Zeros, and the mean square of each channel over batch and positions, without `eps`.
        """
        mean_square = x.square().mean([d for d in range(x.dim()) if d != 1])
        return torch.zeros_like(mean_square), mean_square

    def forward(self, input: Float[Tensor, "n channels *positions"]) -> Tensor:
        """Normalise a batch; in train mode also move the running mean square.

        Raises:
            Refusal: If the input has other channels, or if `eps` is zero and a channel is zero
                on the whole batch.
        """
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise Refusal(
                f"UncentredBatchNorm expected [batch, {self.num_features}, ...], got shape "
                f"{tuple(input.shape)}. Build it with as many features as the input has channels."
            )
        if not self.training and self.running_var is not None:
            mean_square = self.running_var
        else:
            _, mean_square = self.statistics(input)
            if self.training and self.running_var is not None:
                assert self.num_batches_tracked is not None
                self.num_batches_tracked.add_(1)
                momentum = self.momentum
                if momentum is None:
                    momentum = 1 / float(self.num_batches_tracked)
                self.running_var.lerp_(mean_square.detach().to(self.running_var), momentum)
        if self.eps == 0:
            zero = (mean_square == 0).nonzero().flatten().tolist()
            if zero:
                raise Refusal(
                    "UncentredBatchNorm with eps=0 expected every channel to be non-zero "
                    f"somewhere in the batch, but {len(zero)} of {len(mean_square)} are zero, the "
                    f"first is channel {zero[0]}. Use a larger batch, or eps=1e-5."
                )
        # Written out, because F.batch_norm takes no gradient through a variance it is given.
        shape = (1, -1, *(1 for _ in input.shape[2:]))
        scale = (mean_square + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        output = input * scale.to(input.dtype).view(shape)
        return output if self.bias is None else output + self.bias.view(shape)


def norm_layer(kind: Norm, width: int, *, eps: float, images: bool) -> nn.Module | None:
    """The module for `kind`, or nothing for `"none"`.

    For images, `"layer"` normalises each sample over channels and positions together.
    """
    if kind == "none":
        return None
    if kind == "batch-uncentred":
        return UncentredBatchNorm(width, eps=eps)
    if kind == "layer":
        return nn.GroupNorm(1, width, eps=eps) if images else nn.LayerNorm(width, eps=eps)
    return nn.BatchNorm2d(width, eps=eps) if images else nn.BatchNorm1d(width, eps=eps)

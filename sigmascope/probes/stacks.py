"""Plain stacks of linear maps with one activation of two slopes, and their derivatives."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.tapes import Call

if TYPE_CHECKING:
    from sigmascope.probes.subjects import Subject

MOST = 2**24  # entries of a convolution's matrix
NEAR = 8  # roundings by which what a layer reads may differ from the activation


@final
@dataclass(frozen=True)
class Stack:
    """`W_L σ(... σ(W_1 x + b_1) ...) + b_L` with `σ(z) = z` above 0 and `a z` below.

    Attributes:
        sites: Names of the layers.
        weights: `W_1` to `W_L`, `[out, in]`; a convolution as the matrix of its images.
        biases: `b_1` to `b_L`; zero where there is none.
        slope: a; 1 for a linear network.
        biased: Whether any layer has a bias.
    """

    sites: tuple[str, ...]
    weights: tuple[Float64[Tensor, "_ _"], ...]
    biases: tuple[Float64[Tensor, " _"], ...]
    slope: float
    biased: bool = True

    def __post_init__(self) -> None:
        for below, above in pairwise(self.weights):
            if below.shape[0] != above.shape[1]:
                raise ValueError(
                    f"A layer must read what the one below writes, got {tuple(above.shape)} after "
                    f"{tuple(below.shape)}. List the weights in the order of the forward pass."
                )

    @property
    def depth(self) -> int:
        """L."""
        return len(self.weights)

    @property
    def weight_norm(self) -> float:
        """`Σ ‖W_l‖_F²`."""
        return sum(float(w.square().sum()) for w in self.weights)

    @property
    def norm(self) -> float:
        """`‖θ‖² = Σ ‖W_l‖_F² + ‖b_l‖²`."""
        return self.weight_norm + sum(float(b.square().sum()) for b in self.biases)

    def at(self, x: Float64[Tensor, " d"]) -> "Point":
        """Everything at one input."""
        return Point(self, x)

    def balance_defect(self) -> float:
        """Largest `|‖W_l,i‖² + b_l,i² - ‖W_l+1,·i‖²|`, relative to the largest of the norms."""
        worst = size = 0.0
        for W, b, V in zip(self.weights, self.biases, self.weights[1:], strict=False):
            into, out = W.square().sum(1) + b.square(), V.square().sum(0)
            worst = max(worst, float((into - out).abs().max()))
            size = max(size, float(into.max()), float(out.max()))
        return worst / size if size > 0 else 0.0


@final
@dataclass(frozen=True)
class Point:
    """A stack at one input: pre-activations, slopes, and the chains of derivatives.

    Attributes:
        stack: The network.
        x: The input.
    """

    stack: Stack
    x: Float64[Tensor, " d"]

    @cached_property
    def preactivations(self) -> tuple[Float64[Tensor, " _"], ...]:
        """`z_1` to `z_L`; the last is the output."""
        found, a = [], self.x
        for W, b in zip(self.stack.weights, self.stack.biases, strict=True):
            found.append(W @ a + b)
            a = found[-1] * _slopes(found[-1], self.stack.slope)
        return tuple(found)

    @cached_property
    def slopes(self) -> tuple[Float64[Tensor, " _"], ...]:
        """Diagonals of `D_1` to `D_L`; the last is one."""
        hidden = [_slopes(z, self.stack.slope) for z in self.preactivations[:-1]]
        return (*hidden, torch.ones_like(self.preactivations[-1]))

    @property
    def activations(self) -> tuple[Float64[Tensor, " _"], ...]:
        """`α_0 = x` to `α_{L-1}`: what each layer reads."""
        hidden = zip(self.preactivations[:-1], self.slopes[:-1], strict=True)
        return (self.x, *(z * d for z, d in hidden))

    @cached_property
    def forwards(self) -> tuple[Float64[Tensor, "_ d"], ...]:
        """`∂α_0/∂x` to `∂α_{L-1}/∂x`."""
        found = [torch.eye(len(self.x), dtype=torch.float64)]
        for W, d in zip(self.stack.weights[:-1], self.slopes[:-1], strict=True):
            found.append(d[:, None] * (W @ found[-1]))
        return tuple(found)

    @cached_property
    def backwards(self) -> tuple[Float64[Tensor, "c _"], ...]:
        """`∂f/∂z_1` to `∂f/∂z_L`; the last is the identity."""
        found = [torch.eye(self.stack.weights[-1].shape[0], dtype=torch.float64)]
        for W, d in zip(self.stack.weights[:0:-1], self.slopes[-2::-1], strict=True):
            found.append(found[-1] @ W * d)
        return tuple(reversed(found))

    @cached_property
    def jacobian(self) -> Float64[Tensor, "c d"]:
        """`∂f/∂x`."""
        return self.backwards[0] @ self.stack.weights[0]


def _slopes(z: Tensor, slope: float) -> Tensor:
    return torch.where(z > 0, torch.ones_like(z), torch.full_like(z, slope))


def stack_of(subject: "Subject") -> "Stack | str":
    """The stack that a model is; or why it is none.

    Args:
        subject: Its layers are called one after the other, and what each reads is compared with
            the activation of what the one before wrote.
    """
    calls = subject.calls
    if any("#" in c.site for c in calls):
        return "a layer is applied more than once"
    odd = [c.site for c in calls if not isinstance(c.module, nn.Linear | _ConvNd)]
    if odd:
        return f"{odd[0]} is neither a linear layer nor a convolution"
    if not isinstance(subject.batch, Tensor) or not torch.equal(
        calls[0].input.flatten(1), subject.batch.flatten(1).to(calls[0].input)
    ):
        return f"{calls[0].site} does not read the input as it is"
    ends = calls[-1].output, subject.output
    if ends[0].shape != ends[1].shape or not torch.equal(*ends):
        return f"the output is not what {calls[-1].site} writes"
    slope = _slope(calls)
    if isinstance(slope, str):
        return slope
    matrices = [_matrix(c) for c in calls]
    if any(m is None for m in matrices):
        return "the matrix of a convolution is too large"
    found = [m for m in matrices if m is not None]
    return Stack(
        tuple(c.site for c in calls),
        tuple(W for W, _ in found),
        tuple(b for _, b in found),
        slope,
        any(getattr(c.module, "bias", None) is not None for c in calls),
    )


def _slope(calls: tuple[Call, ...]) -> float | str:
    """The one slope below zero of all activations."""
    slope: float | None = None
    for before, after in pairwise(calls):
        z, a = before.output.detach().flatten(1).double(), after.input.flatten(1).double()
        between = f"between {before.site} and {after.site}"
        if z.shape != a.shape:
            return f"{between} units are pooled, split or joined"
        room = NEAR * torch.finfo(before.output.dtype).eps
        below = z < 0
        if slope is None and bool(below.any()):
            slope = float((a[below] * z[below]).sum() / z[below].square().sum())
        expected = torch.where(below, (slope if slope is not None else 0.0) * z, z)
        if not torch.allclose(a, expected, rtol=room, atol=room * float(z.abs().max())):
            return f"{between} lies something else than one activation with two slopes"
    return 1.0 if slope is None else _snapped(slope)


def _snapped(slope: float) -> float:
    """A slope without the rounding of its measurement."""
    near = round(slope, 6)
    return near if abs(near - slope) < 1e-6 else slope


def _matrix(call: Call) -> tuple[Tensor, Tensor] | None:
    module = call.module
    if isinstance(module, nn.Linear):
        if call.input.ndim != 2:
            return None
        bias = torch.zeros(module.out_features) if module.bias is None else module.bias
        return module.weight.detach().double().cpu(), bias.detach().double().cpu()
    shape = call.input.shape[1:]
    size = shape.numel()
    if size * call.output.shape[1:].numel() > MOST:
        return None
    with torch.no_grad():
        eye = torch.eye(size, dtype=call.input.dtype, device=call.input.device)
        zero = module(torch.zeros((1, *shape)).to(eye))
        columns = module(eye.reshape(size, *shape)) - zero
    return columns.flatten(1).mT.double().cpu(), zero.flatten().double().cpu()

"""Plain stacks of linear maps with one activation of two slopes, and their derivatives."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.linalg import Spectrum, spectrum
from sigmascope.probes.convolutions import convolution_operator
from sigmascope.probes.tapes import Call

if TYPE_CHECKING:
    from sigmascope.probes.subjects import Subject

EPS = 2.0**-52
MOST = 2**24  # entries of a convolution's matrix
CONFIRMED = 8  # samples on which the matrices are compared with what the layers wrote
SOLVED = 2**20  # entries up to which the spectral norm of a weight is computed
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

    @cached_property
    def spectral_norms(self) -> tuple[float, ...]:
        """At least `‖W_l‖`; the Frobenius norm of weights that are too large to be factorised."""
        norms = (
            float(torch.linalg.matrix_norm(w, 2)) if w.numel() <= SOLVED else float(w.norm())
            for w in self.weights
        )
        gaps = (4 * max(w.shape) * EPS for w in self.weights)
        return tuple(norm * (1 + gap) for norm, gap in zip(norms, gaps, strict=True))

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

    @cached_property
    def errors(self) -> "Errors":
        """What rounding may have done to each of these."""
        return _errors(self)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Singular values of the Jacobian, with what its own rounding may have moved them by."""
        s = spectrum(self.jacobian, route="exact")
        gap = self.errors.jacobian
        low, high = (s.low - gap).clamp_min(0), s.high + gap
        return Spectrum(s.sigma, s.shape, s.how, low, high)


@final
@dataclass(frozen=True, slots=True)
class Errors:
    """How far rounding may have moved what is known of a stack at an input.

    A running error bound (Higham 2002, Sec. 3.3): every product adds its own roundings to what the
    error of its operand becomes. A unit whose side rounding may have decided counts as both.

    Attributes:
        preactivations: Of each entry of `z_1` to `z_L`.
        decided: Whether every unit is surely on one side of its kink, or exactly at it.
        chains: Of `∂z_1/∂x` to `∂z_L/∂x`, in the Frobenius norm.
        forwards: Of `∂α_0/∂x` to `∂α_{L-1}/∂x`.
        backwards: Of `∂f/∂z_1` to `∂f/∂z_L`.
        reads: Of `∂f/∂α_0` to `∂f/∂α_{L-1}`.
    """

    preactivations: tuple[Float64[Tensor, " _"], ...]
    decided: bool
    chains: tuple[float, ...]
    forwards: tuple[float, ...]
    backwards: tuple[float, ...]
    reads: tuple[float, ...]

    @property
    def jacobian(self) -> float:
        """Of `∂f/∂x`."""
        return self.reads[0]


def _errors(point: Point) -> Errors:
    units, open_ = _unit_errors(point)
    loss = abs(1 - point.stack.slope)  # how far two sides of a kink are apart
    layers = list(zip(point.stack.weights, point.stack.spectral_norms, strict=True))
    chains, forwards = [], [0.0]
    for (W, norm), F, unsure in zip(layers, point.forwards, open_, strict=True):
        chain = W @ F
        chains.append(_product_error(W, F, norm * forwards[-1]))
        forwards.append(_gated_error(chain, unsure, loss=loss, error=chains[-1]))
    backwards, reads = [0.0], []
    gates = list(zip(layers, point.backwards, [None, *open_[:-1]], strict=True))
    for (W, norm), B, unsure in reversed(gates):
        read = B @ W
        reads.append(_product_error(B, W, norm * backwards[-1]))
        if unsure is not None:
            backwards.append(_gated_error(read.mT, unsure, loss=loss, error=reads[-1]))
    decided = not any(bool(unsure.any()) for unsure in open_)
    both = tuple(reversed(backwards)), tuple(reversed(reads))
    return Errors(units, decided, tuple(chains), tuple(forwards[:-1]), *both)


def _unit_errors(point: Point) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Error of every pre-activation, and which hidden units may be on either side."""
    errors, unsure, before = [], [], torch.zeros_like(point.x)
    rise = max(1.0, abs(point.stack.slope))
    layers = zip(point.stack.weights, point.stack.biases, point.activations, strict=True)
    for (W, b, a), z in zip(layers, point.preactivations, strict=True):
        size = W.abs() @ a.abs() + b.abs()
        errors.append(W.abs() @ before + (len(a) + 2) * EPS * size)
        unsure.append((z.abs() <= errors[-1]) & (errors[-1] > 0))
        before = rise * (errors[-1] + EPS * z.abs())
    unsure[-1] = torch.zeros_like(unsure[-1])  # the output has no kink
    return tuple(errors), unsure


def _product_error(A: Tensor, B: Tensor, carried: float) -> float:
    """Of a product, beyond what the error of one operand becomes."""
    return carried + (A.shape[1] + 2) * EPS * float(A.norm()) * float(B.norm())


def _gated_error(rows: Tensor, unsure: Tensor, *, loss: float, error: float) -> float:
    """Of rows that were multiplied by the slopes of units."""
    wide = max(1.0, loss)
    both = loss * (float(rows[unsure].norm()) + error) if bool(unsure.any()) else 0.0
    return wide * error + both + EPS * float(rows.norm())


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
    other = [c.site for c, m in zip(calls, found, strict=True) if not _computes(c, *m)]
    if other:
        return f"{other[0]} computes something else than its weight and its bias"
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
    return 1.0 if slope is None else _shortest(slope, torch.finfo(calls[0].output.dtype).eps)


def _shortest(slope: float, eps: float) -> float:
    """The number of fewest digits that rounding cannot tell from the slope that was measured."""
    nearby = (float(f"{slope:.{digits}g}") for digits in range(1, 18))
    return next(near for near in nearby if abs(near - slope) <= NEAR / 2 * eps * abs(slope))


def _computes(call: Call, W: Tensor, b: Tensor) -> bool:
    """Whether what a layer wrote is its matrix times what it read, up to the model's rounding."""
    x = call.input[:CONFIRMED].flatten(1).double().cpu()
    z = call.output.detach()[:CONFIRMED].flatten(1).double().cpu()
    if x.shape[1] != W.shape[1] or z.shape[1] != W.shape[0]:
        return False
    eps = max(torch.finfo(t.dtype).eps for t in (call.input, call.output))
    room = (NEAR + W.shape[1]) * eps * (x.abs() @ W.abs().mT + b.abs())
    return bool(((x @ W.mT + b - z).abs() <= room).all())


def _matrix(call: Call) -> tuple[Tensor, Tensor] | None:
    module = call.module
    if isinstance(module, nn.Linear):
        if call.input.ndim != 2:
            return None
        bias = torch.zeros(module.out_features) if module.bias is None else module.bias
        return module.weight.detach().double().cpu(), bias.detach().double().cpu()
    assert isinstance(module, _ConvNd)
    shape = call.input.shape[1:]
    size = shape.numel()
    if size * call.output.shape[1:].numel() > MOST:
        return None
    # in float64, without the bias, the entries of the kernel are copied and nothing is rounded
    matrix = convolution_operator(module, grid=tuple(shape[1:])).dense().cpu()
    positions = call.output.shape[2:].numel()
    channels = call.output.shape[1]
    bias = torch.zeros(channels) if module.bias is None else module.bias.detach()
    return matrix, bias.double().cpu().repeat_interleave(positions)

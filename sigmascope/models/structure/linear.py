"""What of a network is linear: all of it, neighbouring layers, or each layer of a plain stack."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, Estimate, Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.layers import Call, channel_dim, is_repeated, own_kind, transposed
from sigmascope.models.samples import Batch
from sigmascope.models.state import still
from sigmascope.models.structure.operations import (
    MOVES,
    SHAPES,
    UNKNOWN,
    Between,
    Errors,
    behind,
    between,
    leaf,
    operation,
    planted,
    running_errors,
)
from sigmascope.models.weights import convolution_operator

# operations that are linear in what comes from the data, one side of a product being no data
LINEAR = {
    *MOVES, "Addmm", "Mm", "Convolution", "Add", "Sub", "Neg", "Mean", "Sum", "AvgPool2D", "Select",
    "Cat", "Split", "AdaptiveAvgPool2D", "MkldnnConvolution", "Linear", "Index", "Unbind",
} - {"NativeDropout"}  # fmt: skip
FORMS = {*SHAPES, "T", "Permute", "Transpose"}
NORMALISED = {"NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"}
WEIGHTED = {"Addmm", "Mm", "Convolution", "MkldnnConvolution", "Linear"}


def is_affine(output: Tensor, weights: Collection[Tensor]) -> bool:
    """Whether what the last weight writes comes from the inputs by linear operations alone.

    It is read off the autograd graph. Numbers would not do: units that are never off on some
    samples make a network affine there, and not elsewhere. A factor that is a weight is no data.
    What is off the tape, as behind `detach` or `no_grad`, may have come from the data in any way.

    Args:
        output: On the autograd tape, on which the inputs are leaves; what follows the last weight
            does not count.
        weights: Parameters of the model.
    """
    known = {id(p) for p in weights}
    node = output.grad_fn
    while node is not None and operation(node) not in WEIGHTED:
        inner = [f for f, _ in node.next_functions if f is not None]
        if len(inner) != 1:
            return False
        node = inner[0]
    # whether a node is more than the form of a single weight
    strange = lambda n: operation(n) not in FORMS if (v := leaf(n)) is None else id(v) not in known
    for one in () if node is None else behind(node):
        if leaf(one) is not None:
            continue
        kind, sides = operation(one), [f for f, _ in one.next_functions]
        weighted, off = kind in WEIGHTED, None in sides
        if kind in NORMALISED:  # linear with statistics that are held, and gains of its own
            gains = (f for f in sides[1:] if f is not None)
            if one._saved_training or any(strange(n) for f in gains for n in behind(f)):
                return False
            continue
        if kind not in LINEAR or (kind == "Cat" and off):
            return False
        if not weighted and kind not in ("Mul", "Div"):
            continue
        data = sum(f is not None and any(map(strange, behind(f))) for f in sides)
        if data > 1 or (weighted and data == 0 and off):
            return False
        if off and not weighted:
            # what it multiplies or divides by must be the same for all samples
            try:
                saved = [one._saved_self, one._saved_other]
            except RuntimeError:  # a backward pass has let them go
                return False
            factors = [t for t in saved if isinstance(t, Tensor) and not t.requires_grad]
            if not all(t.ndim == 0 or t.shape[0] == 1 or t.ndim == 1 for t in factors):
                return False
    return node is not None


# ------------------------------------------------------------------------------
# Layers that read what another wrote, with nothing but linear maps between.


Mark = tuple[int, float]  # length, and the sum of the first numbers


@dataclass(frozen=True, slots=True)
class LinearPair:
    """Two layers that make one linear map.

    Attributes:
        first: Site of the one that writes.
        second: Site of the one that reads it.
        spare: Channels between them, over the lesser of what goes in and what comes out: from one
            on the narrow place between them saves nothing.
    """

    first: str
    second: str
    spare: float


def linear_pairs(model: nn.Module, batch: Batch, calls: Sequence[Call]) -> tuple[LinearPair, ...]:
    """Neighbours among layers without an activation between, seen by their numbers.

    A layer that reads, entry by entry, what an earlier one wrote, or what a batch normaliser made
    of it, which is linear where statistics are held, and which no other layer or normaliser reads
    (as beside a shortcut). Embeddings and grouped convolutions, which
    are factors by design, and tensors that were transposed in between are left out.

    On a batch on which no unit is off, a ReLU leaves every number as it is. So a pair counts only
    if it is one with planted numbers of both signs too (see `planted`).

    Args:
        model: As it is found.
        batch: What it is run on.
        calls: Of layers and normalisers, in the order in which they end.

    Cost: two forward passes, where there are such neighbours.
    """
    near = [pair for pair in _neighbours(calls) if not any(_is_linear(c) is False for c in pair)]
    if not near:
        return ()
    with still(model):
        near = [pair for pair in near if all(_is_linear(c) or c.is_linear for c in pair)]
        for sign in (1, -1) if near else ():
            run = planted(model, batch, calls, sign=sign) or ()
            again = {(a.site, b.site) for a, b in _neighbours(run)}
            near = [(a, b) for a, b in near if (a.site, b.site) in again]
    found: list[LinearPair] = []
    wide = lambda call, t: t.shape[channel_dim(call.module, t)]
    for first, second in near:
        ends = wide(first, first.input), wide(second, second.output)
        spare = wide(first, first.output) / max(1, min(ends))
        found.append(LinearPair(first.site, second.site, spare))
    return tuple(found)


def _neighbours(calls: Sequence[Call]) -> Iterator[tuple[Call, Call]]:
    """Calls that read what another wrote, or what normalisers made of it, in one run."""
    wrote: dict[Mark, list[Call]] = {}
    reads: dict[Mark, list[Call]] = {}
    for call in calls:
        if not call.spoiled:
            reads.setdefault(_mark(call.input), []).append(call)
    for call in calls:
        before = _before(call, wrote, reads)
        if before is not None:
            yield before, call
        if not call.spoiled:
            wrote.setdefault(_mark(call.output), []).append(call)


def _before(
    call: Call, wrote: dict[Mark, list[Call]], reads: dict[Mark, list[Call]]
) -> Call | None:
    """The layer whose output this call, and no other, read; past batch normalisers."""
    read = call.input
    flat = read.flatten()
    # equal numbers tell nothing of where they came from; the first few show that most are not
    if not read.is_floating_point() or all(bool((x == flat[:1]).all()) for x in (flat[:64], flat)):
        return None
    if sum(_same(read, other.input) for other in reads.get(_mark(read), [])) > 1:
        return None  # another layer makes something else of it
    for other in reversed(wrote.get(_mark(read), [])):
        if _same(other.output, read):
            if not isinstance(other.module, _BatchNorm):
                return other
            return _before(other, wrote, reads) if own_kind(other.module) else None
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.detach().flatten(), b.detach().flatten())


def _mark(t: Tensor) -> Mark:
    flat = t.detach().flatten()
    return len(flat), float(flat[:64].double().sum()) if len(flat) else 0.0


def _is_linear(call: Call) -> bool | None:
    """Whether a layer is linear by its kind; None where it has to be tried."""
    module = call.module
    if isinstance(module, _ConvNd):
        return module.groups == 1 and not transposed(module)
    others = (nn.Embedding, _BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
    never = isinstance(module, others) or call.spoiled
    return isinstance(module, nn.Linear) or (False if never else None)


# ------------------------------------------------------------------------------
# Plain stacks of linear maps with one activation of two slopes, and their derivatives.


SOLVED = 2**20  # entries up to which the spectral norm of a weight is computed


@final
@dataclass(frozen=True, repr=False)
class Stack(Brief):
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
                raise Refusal(
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
    def sizes(self) -> tuple[Estimate, ...]:
        """`‖W_1‖_F²` to `‖W_L‖_F²`, with their rounding."""
        return tuple(map(Estimate.sum_of_squares, self.weights))

    @cached_property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Singular values of `W_1` to `W_L`."""
        return tuple(spectrum(w, route="exact") for w in self.weights)

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
@dataclass(frozen=True, repr=False)
class Point(Brief):
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
    def errors(self) -> Errors:
        """What rounding may have done to each of these."""
        return running_errors(
            self.stack.weights,
            self.stack.biases,
            self.stack.spectral_norms,
            slope=self.stack.slope,
            activations=self.activations,
            preactivations=self.preactivations,
            forwards=self.forwards,
            backwards=self.backwards,
        )

    @cached_property
    def spectrum(self) -> Spectrum:
        """Singular values of the Jacobian, with what its own rounding may have moved them by."""
        s = spectrum(self.jacobian, route="exact")
        gap = self.errors.jacobian
        low, high = (s.low - gap).clamp_min(0), s.high + gap
        return Spectrum(s.sigma, s.shape, s.how, low, high)


def _slopes(z: Tensor, slope: float) -> Tensor:
    return torch.where(z > 0, torch.ones_like(z), torch.full_like(z, slope))


# ------------------------------------------------------------------------------
# Whether a model is a plain stack of layers, found by comparing it with one on a batch.


MOST = 2**24  # entries of a convolution's matrix
ENDS = 2**12  # inputs, and outputs, by all of which derivatives are taken
NEAR = 2  # units in the last place by which an activation may differ from its two slopes
ROOM = 2  # roundings of a layer beside those of its sums: before its bias, and when it writes
CONFIRMED = 8  # samples on which the matrices are compared with what the layers wrote


def stack_of(
    model: nn.Module, calls: tuple[Call, ...], batch: Batch, output: Tensor
) -> Stack | str:
    """The stack that a model is; or why it is none.

    Args:
        model: Which somebody holds still; it is run again, as `planted` says.
        calls: Of its layers, one after the other; what each reads is compared with the activation
            of what the one before wrote.
        batch: What the model was run on.
        output: What it gave.
    """
    # their kinds, ends and numbers
    if not calls:
        return "no layer is called on this batch"
    if any(is_repeated(c.site) for c in calls):
        return "a layer is applied more than once"
    odd = [c.site for c in calls if not isinstance(c.module, nn.Linear | _ConvNd)]
    if odd:
        return f"{odd[0]} is neither a linear layer nor a convolution"
    many = [c.site for c in calls if isinstance(c.module, nn.Linear) and c.input.ndim != 2]
    if many:
        return f"{many[0]} is applied to more than one position of each sample"
    first, last = calls[0].input, calls[-1].output
    if not isinstance(batch, Tensor) or not torch.equal(
        first.flatten(1), batch.flatten(1).to(first)
    ):
        return f"{calls[0].site} does not read the input as it is"
    if last.shape != output.shape or not torch.equal(last, output):
        return f"the output is not what {calls[-1].site} writes"
    for end, count in (("inputs", first[0].numel()), ("outputs", last[0].numel())):
        if count > ENDS:
            return f"it has {count} {end}, and derivatives by all are taken of {ENDS} at most"
    odd = [c.site for c in calls[:-1] if not bool(c.output.isfinite().all())]
    if odd:
        return f"{odd[0]} writes numbers that are not finite"
    # the slope below zero, of the batch and of numbers that are planted
    seen = list(between(calls))
    slope = _slope(seen)
    turns = [(shift, sign) for shift in (0, 1) for sign in (1, -1)] if seen else []
    for shift, sign in [] if isinstance(slope, str) else turns:
        run = planted(model, batch, calls, shift=shift, sign=sign)
        if run is None:
            return UNKNOWN
        seen = [*between(run), *seen]
    slope = _slope(seen)
    if isinstance(slope, str):
        return slope
    found = [m for c in calls if (m := _matrix(c)) is not None]
    if len(found) < len(calls):
        return "the matrix of a convolution is too large"
    # whether what each layer wrote is its matrix times what it read, up to the model's rounding;
    # products of half precision are added up in single precision
    for call, (W, b) in zip(calls, found, strict=True):
        x = call.input[:CONFIRMED].flatten(1).double().cpu()
        z = call.output.detach()[:CONFIRMED].flatten(1).double().cpu()
        same = x.shape[1] == W.shape[1] and z.shape[1] == W.shape[0]
        if same:
            eps, least = _coarsest(call.input, call.output)
            steps = ROOM + W.shape[1]
            product, sums = x @ W.mT, x.abs() @ W.abs().mT + b.abs()
            room = steps * (min(eps, torch.finfo(torch.float32).eps) * sums + least)
            room += ROOM * eps * (product.abs() + b.abs())
            same = bool(((product + b - z).abs() <= room).all())
        if not same:
            return f"{call.site} computes something else than its weight and its bias"
    biased = any(getattr(c.module, "bias", None) is not None for c in calls)
    weights, biases = zip(*found, strict=True)
    return Stack(tuple(c.site for c in calls), weights, biases, slope, biased)


def _slope(seen: Sequence[Between]) -> float | str:
    """The one slope below zero of all activations.

    Entry by entry: next to a large number a small one must be right too.
    """
    slope: float | None = None
    for wrote, read, place in seen:
        if wrote.shape != read.shape:
            return f"{place} units are pooled, split or joined"
        z, a = wrote.double(), read.double()
        eps, least = _coarsest(wrote, read)
        below = z < 0
        if slope is None and bool(below.any()):
            # the number of fewest digits that rounding cannot tell from the slope that was measured
            measured = float((a[below] / z[below]).median())
            nearby = (float(f"{measured:.{digits}g}") for digits in range(1, 18))
            slope = next(
                near for near in nearby if abs(near - measured) <= NEAR * eps * abs(measured)
            )
        expected = torch.where(below, (slope if slope is not None else 0.0) * z, z)
        if not torch.allclose(a, expected, rtol=NEAR * eps, atol=least):
            return f"{place} lies something else than one activation with two slopes"
    return 1.0 if slope is None else slope


def _coarsest(*tensors: Tensor) -> tuple[float, float]:
    """Relative rounding and smallest normal number of the coarsest of their formats."""
    kinds = [torch.finfo(t.dtype) for t in tensors]
    return max(k.eps for k in kinds), max(k.tiny for k in kinds)


def _matrix(call: Call) -> tuple[Tensor, Tensor] | None:
    module = call.module
    if isinstance(module, nn.Linear):
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

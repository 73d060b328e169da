"""The affine map that a piecewise-affine network is near one sample."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.piecewise_affine.certificates import has_slope, require_map
from sigmascope.probes.piecewise_affine.segments import DENSE, linear, segment, widened


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`f(z) = A z + b` for every input in the same region as the sample.

    Attributes:
        matrix: `A [outputs, inputs]`; written out where it is small.
        offset: `b`.
        regions: Which side of each kink every unit is on, activation by activation in the order of
            calls: 1 and 0 for the two sides of ReLU and its like, 0 to 2 for two kinks, the sign of
            the difference for a comparison, the place of the winner in its window for max-pooling.
        output: `f` at the sample.
    """

    matrix: Operator
    offset: Float[Tensor, " m"]
    regions: tuple[Int[Tensor, "..."], ...]
    output: Float[Tensor, " m"]


def local_affine(
    model: nn.Module,
    x: Float[Tensor, "1 *sample"],
    start: str | None = None,
    stop: str | None = None,
) -> AffineMap:
    """The affine map of a piecewise-affine network (or a part of it) around one sample.

    What the operations are is looked up by name, and the map is then compared with the network at
    other points of the region, in float64 if the model runs in it.

    Args:
        model: Of layers, pooling, normalisers in evaluation mode, sums, concatenations, choices by
            comparison and activations made of straight pieces; left as it was found.
        x: One sample, with its batch dimension.
        start: A module whose input the map is of; the model's input by default.
        stop: A module whose output it gives; the model's output by default.

    Raises:
        Refusal: If something between is not piecewise affine, or not known to be: a smooth
            activation, attention, a normaliser that takes the statistics of its input, `detach`, a
            derivative of its own; if the sample lies on a boundary; or if the network is not what
            the map says at other points of the region.

    Source:
        Balestriero & Baraniuk 2018; Riedi et al. 2022, Eqs. (36) to (38) with `D_k` before the
        biases.

    Cost: four forward passes or some more, for the map is tried; a backward pass for each output if
    the matrix is written out.
    """
    wide = widened(model, x)
    with segment(wide, x, start, stop) as part:
        if part.why:
            raise Refusal(
                f"The network must be piecewise affine between the two ends, got {part.why}. Take "
                "its linearisation, `probes.piecewise_affine.jacobian(model, x)`, or exchange what "
                "is not affine."
            )
        A = linear(part.z, part.out)
        require_map(wide, x, (start, stop), part, A)
        flat, sample = part.out.detach().flatten(), part.z.detach().flatten()
        offset = flat - A.apply(sample[:, None])[:, 0]
        like = next(p.dtype for p in model.parameters() if p.is_floating_point())
        sides = tuple(k.side for k in part.kinks)
        return AffineMap(_rounded(A, like), offset.to(like), sides, flat.to(like))


def _rounded(A: Operator, dtype: torch.dtype) -> Operator:
    """A map that was measured in float64, in the precision of the model."""
    if A.like.dtype == dtype:
        return A
    if A.shape[0] * A.shape[1] <= DENSE:
        return Operator.of(A.dense().to(dtype))
    wide = A.like.dtype
    return Operator(
        A.shape,
        lambda v: A.apply(v.to(wide)).to(dtype),
        lambda y: A.adjoint(y.to(wide)).to(dtype),
        A.like.to(dtype),
    )


def jacobian(
    model: nn.Module,
    x: Float[Tensor, "1 *sample"],
    start: str | None = None,
    stop: str | None = None,
) -> Operator:
    """The derivative `[outputs, inputs]` of a network (or a part of it) at one sample.

    Args:
        model: Any that can be differentiated; twice, if the matrix is too large to write out.
        x: One sample, with its batch dimension.
        start: As for `local_affine`.
        stop: As for `local_affine`.

    Raises:
        Refusal: If something that depends on the input is cut off from the derivative (`detach`,
            numbers that leave PyTorch), or a function has a derivative of its own, and differences
            of outputs say otherwise.
    """
    with segment(model, x, start, stop) as part:
        A = linear(part.z, part.out)
        if (part.cut or part.own) and not has_slope(model, x, (start, stop), part, A):
            raise Refusal(
                "The derivative must follow everything that depends on the input, got other "
                f"differences with {part.own or part.cut}. Take it out, or measure a part of the "
                "model without it."
            )
        return A

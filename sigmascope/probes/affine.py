"""The affine map that a piecewise-affine network is near one sample."""

from dataclasses import dataclass

from jaxtyping import Float, Int8
from torch import Tensor, nn

from sigmascope.linalg import Operator
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.segments import linear, segment
from sigmascope.probes.smoothness import why_not_affine


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`f(z) = A z + b` for every input in the same region as the sample.

    Attributes:
        matrix: `A [outputs, inputs]`; written out where it is small.
        offset: `b`.
        regions: Which side of each kink every unit is on, activation by activation in the order of
            calls: 1 and 0 for the two sides of ReLU and its like, 0 to 2 for two kinks, the place
            of the winner in its window for max-pooling.
        output: `f` at the sample.
    """

    matrix: Operator
    offset: Float[Tensor, " m"]
    regions: tuple[Int8[Tensor, "..."], ...]
    output: Float[Tensor, " m"]


def local_affine(
    model: nn.Module,
    x: Float[Tensor, "1 *sample"],
    start: str | None = None,
    stop: str | None = None,
) -> AffineMap:
    """The affine map of a piecewise-affine network (or a part of it) around one sample.

    Args:
        model: Of layers, pooling, normalisers in evaluation mode, sums, concatenations and
            activations made of straight pieces; left as it was found.
        x: One sample, with its batch dimension.
        start: A module whose input the map is of; the model's input by default.
        stop: A module whose output it gives; the model's output by default.

    Raises:
        Refusal: If something between is not piecewise affine: a smooth activation, attention, a
            normaliser that takes the statistics of its input.

    Source:
        Balestriero & Baraniuk 2018; Riedi et al. 2022, Eqs. (36) to (38) with `D_k` before the
        biases.

    Cost: one forward pass; a backward pass for each output if the matrix is written out.
    """
    with segment(model, x, start, stop) as (z, out, kinks):
        why = why_not_affine(out, z)
        if why:
            raise Refusal(
                f"The network must be piecewise affine between the two ends, got {why}. Take its "
                "linearisation, `probes.jacobian(model, x)`, or exchange what is not affine."
            )
        A = linear(z, out)
        flat, sample = out.detach().flatten(), z.detach().flatten()
        offset = flat - A.apply(sample[:, None])[:, 0]
        return AffineMap(A, offset, tuple(k.side for k in kinks), flat)


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
    """
    with segment(model, x, start, stop) as (z, out, _):
        return linear(z, out)

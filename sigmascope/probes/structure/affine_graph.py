"""Whether a network is one affine map, read off the autograd graph of a run.

Numbers would not do: units that are never off on some samples make a network affine there, and not
elsewhere.
"""

from collections.abc import Collection
from typing import Any

from torch import Tensor

from sigmascope.probes.structure.operations import MOVES, SHAPES, behind, leaf, operation

# operations that are linear in what comes from the data, one side of a product being no data
LINEAR = {
    *MOVES, "Addmm", "Mm", "Convolution", "Add", "Sub", "Neg", "Mean", "Sum", "AvgPool2D", "Select",
    "Cat", "Split", "AdaptiveAvgPool2D", "MkldnnConvolution", "Linear", "Index", "Unbind",
} - {"NativeDropout"}  # fmt: skip
FORMS = {*SHAPES, "T", "Permute", "Transpose"}
WEIGHTED = {"Addmm", "Mm", "Convolution", "MkldnnConvolution", "Linear"}


def is_affine(output: Tensor, weights: Collection[Tensor]) -> bool:
    """Whether what the last weight writes comes from the inputs by linear operations alone.

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
    return node is not None and all(_is_linear(n, known) for n in behind(node))


def _is_linear(node: Any, weights: Collection[int]) -> bool:
    """Whether a node is linear in what comes from data; a factor that is a weight is none of it.

    What is off the tape, as behind `detach` or `no_grad`, may have come from the data in any way.
    """
    if leaf(node) is not None:
        return True
    kind = operation(node)
    if kind not in LINEAR:
        return False
    sides = [f for f, _ in node.next_functions]
    if kind not in ("Mul", "Div", *WEIGHTED):
        return kind != "Cat" or None not in sides
    data = sum(f is not None and _is_data(f, weights) for f in sides)
    if kind in WEIGHTED and data == 0 and None in sides:
        return False
    return data <= 1 and (kind in WEIGHTED or None not in sides or _by_constant(node))


def _by_constant(node: Any) -> bool:
    """Whether what a node multiplies or divides by, off the tape, is the same for all samples."""
    try:
        saved = [node._saved_self, node._saved_other]
    except RuntimeError:  # a backward pass has let them go
        return False
    factors = [t for t in saved if isinstance(t, Tensor) and not t.requires_grad]
    return all(t.ndim == 0 or t.shape[0] == 1 or t.ndim == 1 for t in factors)


def _is_data(node: Any, weights: Collection[int]) -> bool:
    """Whether more than the form of a single weight is behind a node."""
    for f in behind(node):
        variable = leaf(f)
        if variable is None and operation(f) not in FORMS:
            return True
        if variable is not None and id(variable) not in weights:
            return True
    return False

"""Whether what lies between two tensors is piecewise affine, read from the autograd graph."""

import re
from typing import Any

from torch import Tensor

AFFINE = {
    "AccumulateGrad", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "Add", "Addmm", "Addmv", "Alias",
    "AsStrided", "AvgPool2D", "AvgPool3D", "Baddbmm", "Bmm", "Cat", "Clone", "ConstantPadNd",
    "Convolution", "Copys", "Copy", "CopySlices", "Cumsum", "Detach", "Diagonal", "Div", "Dot",
    "Expand", "Flip", "Gather", "Identity", "Index", "IndexSelect", "Linear", "MaskedFill", "Mean",
    "Mm", "Mul", "Mv", "NativeBatchNorm", "Neg", "Permute", "ReflectionPad1D", "ReflectionPad2D",
    "ReflectionPad3D", "Repeat", "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D",
    "ReshapeAlias", "Roll", "Rsub", "Select", "Slice", "Split", "SplitWithSizes", "Squeeze",
    "Stack", "Sub", "Sum", "T", "ToCopy", "Trace", "Transpose", "Tril", "Triu", "Unbind", "Unfold",
    "UnsafeSplit", "UnsafeView", "Unsqueeze", "UpsampleBilinear2D", "UpsampleLinear1D",
    "UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D", "UpsampleTrilinear3D", "View",
}  # fmt: skip
PIECEWISE = {
    "Abs", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "Amax", "Amin", "Clamp", "ClampMax",
    "ClampMin", "Hardshrink", "Hardtanh", "LeakyRelu", "Max", "MaxPool2DWithIndices",
    "MaxPool3DWithIndices", "Maximum", "Min", "Minimum", "PreluKernel", "Relu", "Rrelu",
    "RreluWithNoise", "Softshrink", "Sort", "Threshold", "Topk", "Where",
}  # fmt: skip
# operations that are affine in any one of their operands
PRODUCTS = {"Addmm", "Addmv", "Baddbmm", "Bmm", "Convolution", "Div", "Dot", "Mm", "Mul", "Mv"}
FACTORS = {"Addmm": (1, 2), "Addmv": (1, 2), "Baddbmm": (1, 2)}  # the first one is only added


def why_not_affine(out: Tensor, z: Tensor) -> str:
    """What keeps `out` from being piecewise affine in `z`, by name; empty if nothing does."""
    reaching = _reaching(out, z)
    for node in reaching:
        name = _name(node)
        if name not in AFFINE | PIECEWISE:
            return f"`{name}`"
        if name in PRODUCTS:
            operands = node.next_functions
            places = FACTORS.get(name, range(len(operands)))
            factors = [i for i in places if operands[i][0] in reaching]
            if len(factors) > 1:
                return f"a product (`{name}`) of two things that both depend on the input"
            if name == "Div" and factors and factors[0] == 1:
                return "a division by something that depends on the input"
        if name == "NativeBatchNorm" and getattr(node, "_saved_training", False):
            return "batch normalisation in training mode (call `model.eval()` first)"
    return ""


def _name(node: Any) -> str:
    return re.sub(r"(Backwards?)?\d*$", "", node.name().rsplit("::", 1)[-1])


def _reaching(out: Tensor, z: Tensor) -> dict[Any, None]:
    """The nodes between the two, the end of the computation first."""
    depends: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(out.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if done:
            after = [n for n, _ in node.next_functions if n is not None]
            depends[node] = any(depends.get(n, False) for n in after)
        elif node is not None and node not in depends:
            depends[node] = getattr(node, "variable", None) is z
            if not depends[node]:
                stack.append((node, True))
                stack += [(n, False) for n, _ in node.next_functions]
    return {node: None for node in reversed(depends) if depends[node]}

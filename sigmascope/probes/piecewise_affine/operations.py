"""What PyTorch's operations are, as functions of what they read: affine, in pieces, or unknown.

The names are those of the dispatcher (`aten`), which every spelling comes down to: `x.clip_(0)`,
`torch.clamp(x, 0, out=y)` and `F.hardtanh(x)` of a module, a method or a C++ function alike. What
stands in none of these tables is not known, and is refused by its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.samples.batches import tensors

Arguments = dict[str, Any]  # of one call, by the names of the operation's schema

# jointly affine in all tensors that they read
AFFINE = {
    "adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "add", "alias",
    "as_strided", "as_strided_scatter", "avg_pool1d", "avg_pool2d", "avg_pool3d", "block_diag",
    "cat", "channel_shuffle", "clone", "col2im", "concat", "constant_pad_nd", "copy", "cumsum",
    "diag_embed", "diagonal", "diagonal_copy", "diagonal_scatter", "diff", "expand",
    "expand_copy", "fill", "flip", "im2col", "lift_fresh", "mean", "native_channel_shuffle",
    "neg", "permute", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "positive",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "reshape", "_reshape_alias", "roll", "rot90",
    "rsub", "select", "select_copy", "select_scatter", "slice", "slice_copy", "slice_scatter",
    "split", "split_copy", "split_with_sizes", "split_with_sizes_copy", "squeeze",
    "squeeze_copy", "stack", "sub", "sum", "t", "t_copy", "_to_copy", "trace", "transpose",
    "transpose_copy", "tril", "triu", "unbind", "unbind_copy", "unfold", "unfold_copy",
    "unsafe_split", "unsafe_split_with_sizes", "_unsafe_view", "unsqueeze", "unsqueeze_copy",
    "upsample_bicubic2d", "_upsample_bicubic2d_aa", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "upsample_trilinear3d", "view", "view_copy", "zero",
}  # fmt: skip
# by integers or Booleans: affine in the tensors, once it is known which entries are taken
CHOOSING = {
    "embedding", "gather", "index", "index_add", "index_copy", "index_fill", "index_put",
    "index_select", "masked_fill", "masked_scatter", "masked_select", "put",
    "repeat_interleave", "scatter", "scatter_add", "take", "_unsafe_index", "_unsafe_index_put",
    "where",
}  # fmt: skip
# affine in each of these groups while the others stand still; and in what is only added
PRODUCTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "addbmm": (("batch1",), ("batch2",)),
    "addcmul": (("tensor1",), ("tensor2",)),
    "addmm": (("mat1",), ("mat2",)),
    "addmv": (("mat",), ("vec",)),
    "addr": (("vec1",), ("vec2",)),
    "baddbmm": (("batch1",), ("batch2",)),
    "bmm": (("self",), ("mat2",)),
    "convolution": (("input",), ("weight",)),
    "dot": (("self",), ("tensor",)),
    "lerp": (("self", "end"), ("weight",)),
    "linear": (("input",), ("weight",)),
    "mm": (("self",), ("mat2",)),
    "mul": (("self",), ("other",)),
    "mv": (("self",), ("vec",)),
    "vdot": (("self",), ("other",)),
}
# affine in one tensor, not in the others
ONLY = {
    "_native_batch_norm_legit": "input",
    "_native_batch_norm_legit_no_training": "input",
    "_batch_norm_no_update": "input",
    "_batch_norm_with_update": "input",
    "addcdiv": "self",
    "cudnn_batch_norm": "input",
    "div": "self",
    "grid_sampler_2d": "input",
    "grid_sampler_3d": "input",
    "miopen_batch_norm": "input",
    "native_batch_norm": "input",
}
NORMALISERS = frozenset(n for n in ONLY if "batch_norm" in n)
# only the shape of what they read counts
SHAPED = {
    "empty_like", "full_like", "_has_same_storage_numel", "is_same_size", "new_empty",
    "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like",
}  # fmt: skip


def spelled(name: str) -> str:
    """As autograd would write it: `native_layer_norm` is `NativeLayerNorm`."""
    if "::" in name:
        return name
    return "".join(word[:1].upper() + word[1:] for word in name.strip("_").split("_"))


def why_not(name: str, call: Arguments, varying: set[str]) -> str:
    """What keeps an operation without kinks from being affine in the arguments that vary."""
    if call.get("reduce") is not None:
        return f"`{spelled(name)}` that reduces by `{call['reduce']}`"
    if name in AFFINE or (name in CHOOSING and not varying & {"condition", "mask", "indices"}):
        return ""
    if name in PRODUCTS:
        groups = [g for g in PRODUCTS[name] if varying & set(g)]
        both = f"a product (`{spelled(name)}`) of two things that both depend on the input"
        return both if len(groups) > 1 else ""
    if name == "div" and call.get("rounding_mode") is not None:
        return f"a division that rounds ({call['rounding_mode']})"
    if name == "div" and "other" in varying:
        return "a division by something that depends on the input"
    if name in NORMALISERS and (call.get("training") or name == "_batch_norm_with_update"):
        return f"a normaliser that takes the statistics of its input (`{spelled(name)}`)"
    return "" if name in ONLY and varying <= {ONLY[name]} else f"`{spelled(name)}`"


_inside = lambda v: (
    [v] if isinstance(v, Tensor) else [*tensors(v)] if isinstance(v, list | tuple) else []
)


@dataclass(frozen=True, slots=True)
class _Schema:
    """What a schema says of every call."""

    name: str
    arguments: tuple[str, ...]
    outs: frozenset[str]
    written: tuple[str, ...]
    views: bool
    random: bool
    shapes: bool


@cache
def _schema_of(func: Any) -> _Schema:
    schema = func._schema
    base = schema.name.removeprefix("aten::")
    inplace = base.endswith("_") and not base.endswith("__")
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    views = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
    return _Schema(
        base[:-1] if inplace else base,
        tuple(a.name for a in schema.arguments),
        frozenset(a.name for a in schema.arguments if a.is_out),
        tuple(written),
        views and not written,
        torch.Tag.nondeterministic_seeded in func.tags,
        torch.Tag.dynamic_output_shape in func.tags,
    )


class Call:
    """A call of an operation: what it reads and writes, by the names of its schema.

    Attributes:
        name: Of the operation, without the underscore of those that work in place.
        given: Arguments by name.
        reads: Tensors among them.
        writes: Tensors that it changes.
        random: Whether it draws random numbers.
        real: Whether it writes floating numbers where it is told what to write.
        odd: Whether it takes tensors for something else than real numbers.
        looks: Whether its result is another view of the same storage.
        shapes: Whether numbers decide how large its result is, which Python then knows.
    """

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        schema = _schema_of(func)
        self.name = schema.name
        self.given: Arguments = {**dict(zip(schema.arguments, args, strict=False)), **kwargs}
        self.reads = {
            n: ts for n, v in self.given.items() if n not in schema.outs and (ts := _inside(v))
        }
        self.writes = [t for n in schema.written for t in _inside(self.given.get(n))]
        exempt = self.name == "rrelu_with_noise" and not self.given.get("training")
        self.random = schema.random and not exempt
        target = self.given.get("dtype")
        real = target is None or target.is_floating_point
        self.real = real and all(t.is_floating_point() for t in self.writes)
        bits = self.name == "view" and target is not None
        whole = target is not None and target.is_complex
        self.odd = bits or whole or any(t.is_complex() for ts in self.reads.values() for t in ts)
        masks = [t for t in self.reads.get("indices", ()) if t.dtype in (torch.bool, torch.uint8)]
        self.shapes = schema.shapes and (self.name != "index" or bool(masks))
        self.looks = schema.views and not self.odd and self.name != "view_as_complex"

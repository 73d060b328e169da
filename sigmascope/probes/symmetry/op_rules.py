"""What each operation of a run does to the scales of units, listed by hand.

An operation that is not here lets nothing be rescaled: an omission can lose an invariant, never
claim a false one.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sigmascope.probes.symmetry import (
    op_contractions as contractions,
    op_normalisers as normalisers,
    op_pointwise as pointwise,
)
from sigmascope.probes.symmetry.scaled_tensors import Shadows

Rule = Callable[[Shadows, Sequence[Any], Any], None]

# linear maps of each channel by itself, by how many axes they act on
AVERAGES = {
    1: ("upsample_nearest1d", "upsample_linear1d", "reflection_pad1d", "replication_pad1d"),
    2: (
        *("avg_pool2d", "_adaptive_avg_pool2d", "reflection_pad2d", "replication_pad2d"),
        *("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d"),
    ),
    3: ("avg_pool3d", "_adaptive_avg_pool3d", "upsample_nearest3d"),
}
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "mm": contractions.mm,
        "mv": contractions.mv,
        "dot": contractions.dot,
        "addmm": contractions.addmm,
        "bmm": contractions.bmm,
        "baddbmm": contractions.baddbmm,
        "convolution": contractions.convolution,
        "embedding": contractions.embedding,
        **dict.fromkeys(("relu", "leaky_relu"), pointwise.activation),
        "_prelu_kernel": pointwise.learned_slope,
        **dict.fromkeys(("rrelu_with_noise", "abs"), pointwise.modulus),
        **dict.fromkeys(("clamp", "clamp_min"), pointwise.clamp),
        **dict.fromkeys(["neg", "clone", "_to_copy", "contiguous", "tril", "triu"], pointwise.same),
        "masked_fill": pointwise.masked,
        "where": pointwise.choice,
        "native_dropout": pointwise.dropout,
        **dict.fromkeys(("add", "sub", "rsub"), pointwise.add),
        "mul": pointwise.scaled(1.0),
        "div": pointwise.scaled(-1.0),
        "pow": pointwise.power,
        "square": pointwise.root(2.0),
        "sqrt": pointwise.root(0.5),
        "rsqrt": pointwise.root(-0.5),
        "reciprocal": pointwise.root(-1.0),
        **dict.fromkeys(("sum", "mean", "cumsum"), pointwise.reduced),
        **dict.fromkeys(("amax", "amin", "max", "min"), pointwise.extreme),
        "linalg_vector_norm": pointwise.vector_norm,
        "native_layer_norm": normalisers.layer_norm,
        "_fused_rms_norm": normalisers.rms_norm,
        "native_group_norm": normalisers.group_norm,
        **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), normalisers.batch_norm),
        "_weight_norm_interface": normalisers.weight_norm,
        **dict.fromkeys(AVERAGES[1], normalisers.pooled(1)),
        **dict.fromkeys(AVERAGES[2], normalisers.pooled(2)),
        **dict.fromkeys(AVERAGES[3], normalisers.pooled(3)),
        "max_pool2d_with_indices": normalisers.pooled(2, largest=True),
        "max_pool3d_with_indices": normalisers.pooled(3, largest=True),
        "adaptive_max_pool2d": normalisers.pooled(2, largest=True),
        "constant_pad_nd": normalisers.padded,
    }
)

# carried out on the labels themselves
MOVES = {
    "cat", "stack", "index", "index_select", "gather", "flip", "roll", "repeat",
    "repeat_interleave", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "split_with_sizes_copy", "unbind_copy",
}  # fmt: skip

# what they write does not depend on the values of what they read
MADE = {
    "zeros", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "bernoulli_", "normal_", "uniform_",
    "zero_", "fill_", "exponential_", "detach",
}  # fmt: skip

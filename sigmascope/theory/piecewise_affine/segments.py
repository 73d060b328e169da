"""A part of a network as a function of one sample, on the autograd tape."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode, enable_reentrant_dispatch

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg.krylov import Operator
from sigmascope.models import Subject
from sigmascope.models.gradients import pushforward
from sigmascope.models.layers import called, explaining, require_model
from sigmascope.models.samples import Batch, as_tensor, mapped, prepared, tensors
from sigmascope.models.state import duplicate, still, uses_batch_statistics
from sigmascope.models.trace import DispatchMode

# ------------------------------------------------------------------------------
# The nodes of autograd that lie between tensors.


def between(ends: Iterable[Any], z: Tensor) -> dict[Any, None]:
    """The nodes from some down to a tensor, those that are computed first in front."""
    depends: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(end, False) for end in ends]
    while stack:
        node, done = stack.pop()
        if done:
            after = [n for n, _ in node.next_functions if n is not None]
            del depends[node]  # to come after them
            depends[node] = any(depends.get(n, False) for n in after)
        elif node is not None and node not in depends:
            depends[node] = getattr(node, "variable", None) is z
            if not depends[node]:
                stack.append((node, True))
                stack += [(n, False) for n, _ in node.next_functions]
    return {node: None for node in depends if depends[node]}


def handwritten(nodes: Iterable[Any]) -> str:
    """A `torch.autograd.Function` of the user's, or a backward hook, by name; empty if none."""
    names = [type(n).__name__ for n in nodes if isinstance(n, BackwardCFunction)]
    return names[0].removesuffix("Backward") if names else ""


# ------------------------------------------------------------------------------
# What PyTorch's operations are, as functions of what they read: affine, in pieces, or unknown.
#
# The names are those of the dispatcher (`aten`), which every spelling comes down to: `x.clip_(0)`,
# `torch.clamp(x, 0, out=y)` and `F.hardtanh(x)` of a module, a method or a C++ function alike. What
# stands in none of these tables is not known, and is refused by its name.


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


class OperationCall:
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


# ------------------------------------------------------------------------------
# Where operations made of straight pieces bend or jump.


@dataclass(frozen=True, slots=True)
class Kink:
    """One call of an operation with kinks.

    Attributes:
        name: Of the operation.
        side: Which piece every entry is on.
        heights: Zero where an entry changes its piece, on the autograd tape.
        known: Whether the heights are; if not, they are what went in.
        windows: What each window of max-pooling chooses from, by sample; heights are then
            those of the other entries below the winner.
        jumps: Whether the result may jump at the kink, and not only bend.
    """

    name: str
    side: Tensor
    heights: Tensor
    known: bool = True
    windows: Tensor | None = None
    jumps: bool = False


def _kink_of(name: str, call: Arguments) -> Kink | None:
    """The kink of a call that is about to be made; None if the operation has none."""
    if name == "_to_copy" and call.get("dtype") is torch.bool:
        return _compared("bool", {**call, "other": 0})
    if name == "median" and "dim" not in call:  # which of them it was is not told
        return None
    return KINKS[name](name.strip("_"), call) if name in KINKS else None


class _Plain(DispatchMode):
    """Follows nothing; without any mode, what C++ makes has no interpreter to go to."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def kink_on_tape(name: str, given: Arguments) -> Kink | None:
    """The kink of a call with its heights on the tape, from where autograd is off, below itself."""
    with torch.enable_grad(), enable_reentrant_dispatch(), _Plain():
        found = _kink_of(name, given)
    if found is None or found.heights.requires_grad:
        return found
    return Kink(found.name, found.side, found.heights, False, found.windows, found.jumps)


def allowed(call: Arguments, varying: set[str]) -> bool:
    """Whether an operation with kinks is piecewise affine in the arguments that vary."""
    return varying <= MAY_VARY and not call.get("training", False)


def _at_zero(name: str, call: Arguments) -> Kink:
    x = call["self"].clone()  # the operation may work in place
    return Kink(name, (x > 0).to(torch.int8), x)


def _between(name: str, x: Tensor, low: Any, high: Any, *, jumps: bool = False) -> Kink:
    gaps = torch.broadcast_tensors(*(x - e for e in (low, high) if e is not None))
    side = sum(((g > 0).to(torch.int8) for g in gaps), torch.zeros_like(gaps[0], dtype=torch.int8))
    return Kink(name, side, torch.stack(gaps, dim=-1), jumps=jumps)


def _compared(name: str, call: Arguments) -> Kink:
    a, b = call["self"], call["other"]
    gap = (a.to(b) if not a.is_floating_point() else a) - (
        b.to(a) if isinstance(b, Tensor) and not b.is_floating_point() else b
    )
    return Kink(name, gap.detach().sign().to(torch.int8), gap, jumps=True)


def _larger(name: str, call: Arguments) -> Kink:
    gap = call["self"] - call["other"]
    return Kink(name, (gap > 0).to(torch.int8), gap)


def _extreme(name: str, call: Arguments) -> Kink:
    """Largest or smallest over some dimensions."""
    x = call["self"]
    dims = call.get("dim")
    many = list(range(x.ndim)) if dims is None or dims == [] else dims
    places = [many] if isinstance(many, int) else list(many)
    last = list(range(-len(places), 0))
    windows = x.movedim(places, last).flatten(-len(places)) if places else x[..., None]
    lowest = name.removeprefix("arg") in ("min", "amin")
    return _winning(name, -windows if lowest else windows, jumps=name.startswith("arg"))


def _max_pool(name: str, call: Arguments) -> Kink:
    """Each window's winner, and how far the others are behind it."""
    x, size = call["self"], call["kernel_size"]
    dims = 3 if "3d" in name else 2
    each = lambda v: list(v) * dims if len(v) == 1 else list(v)
    kernel, pad = each(size), each(call.get("padding") or [0])
    steps, apart = each(call.get("stride") or kernel), each(call.get("dilation") or [1])
    ceil = bool(call.get("ceil_mode", False))
    windows = x if x.ndim == dims + 2 else x[None]
    for dim, (k, p, s, d) in enumerate(zip(kernel, pad, steps, apart, strict=True), start=2):
        length, reach = windows.shape[dim], (k - 1) * d + 1
        free = length + 2 * p - reach
        count = (free + (s - 1) * ceil) // s + 1
        count -= ceil and (count - 1) * s >= length + p  # a window must not start in the padding
        more = max((count - 1) * s + reach - length - p, p)
        border = [0, 0] * (windows.ndim - dim - 1) + [p, more]
        padded = F.pad(windows, border, value=-torch.inf)
        windows = padded.unfold(dim, reach, s)[..., ::d].narrow(dim, 0, count)
    return _winning(name.removesuffix("_with_indices"), windows.flatten(-dims))


def _winning(name: str, windows: Tensor, *, jumps: bool = False) -> Kink:
    winner = windows.detach().argmax(-1, keepdim=True)
    behind = windows.gather(-1, winner) - windows
    others = torch.ones_like(behind, dtype=torch.bool).scatter_(-1, winner, value=False)
    kept = behind[others & behind.detach().isfinite()]
    return Kink(name, winner[..., 0], kept, windows=windows, jumps=jumps)


def _ordered(name: str, call: Arguments) -> Kink:
    """Whose pieces are known by the places that it returns, their boundaries not."""
    rest = {k: v for k, v in call.items() if k not in ("self", "values", "indices", "out")}
    x = call["self"]
    found = getattr(torch.ops.aten, name)(x.detach(), **rest)
    return Kink(name, found[1], x.clone(), known=False)


Handler = Callable[[str, Arguments], Kink]
COMPARISONS: dict[str, Handler] = dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne"), _compared)
# whose result is the same throughout each piece
STEPS = frozenset({*COMPARISONS, "sign", "sgn", "argmax", "argmin"})
MAY_VARY = frozenset({"self", "other", "min", "max"})
KINKS: dict[str, Handler] = {
    **COMPARISONS,
    **dict.fromkeys(("relu", "leaky_relu", "abs", "rrelu_with_noise"), _at_zero),
    "_prelu_kernel": lambda _, call: _at_zero("prelu", call),
    **dict.fromkeys(("sign", "sgn"), lambda name, call: _compared(name, {**call, "other": 0})),
    "hardtanh": lambda name, call: _between(
        name, call["self"], call.get("min_val", -1), call.get("max_val", 1)
    ),
    **dict.fromkeys(
        ("clamp", "clamp_min", "clamp_max", "clip"),
        lambda name, call: _between(name, call["self"], call.get("min"), call.get("max")),
    ),
    "threshold": lambda name, call: _between(
        name, call["self"], call["threshold"], None, jumps=call["threshold"] != call["value"]
    ),
    **dict.fromkeys(
        ("softshrink", "hardshrink"),
        lambda name, call: _between(
            name,
            call["self"],
            -call.get("lambd", 0.5),
            call.get("lambd", 0.5),
            jumps=name == "hardshrink",
        ),
    ),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _larger),
    **dict.fromkeys(("amax", "amin", "max", "min", "argmax", "argmin"), _extreme),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices"), _max_pool),
    **dict.fromkeys(("sort", "topk", "kthvalue", "median", "cummax", "cummin"), _ordered),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d"), _ordered),
}


# ------------------------------------------------------------------------------
# What a network does with its input, operation by operation, as the dispatcher runs them.
#
# Below autograd every spelling of an operation is one name of `aten`, and a tensor is known by its
# storage, so that nothing that depends on the input is lost: not behind `detach()` or `.data`, not
# in place, not in a function with a derivative of its own. Each storage that depends on the input
# either varies with it or is the same throughout a region (Booleans, indices, signs). What varies
# must go through operations that are known, and must stay on the tape of autograd, by which slopes
# are taken; everything else is noted by name.


# what hands numbers to the world outside PyTorch, where nobody follows them
LEAVING = frozenset(
    {"numpy", "tolist", "__array__", "__dlpack__", "__deepcopy__", "__reduce_ex__", "storage"}
    | {"untyped_storage", "__cuda_array_interface__", "map_", "apply_"}
)
FINITE = frozenset({"isnan", "isinf", "isfinite"})  # the same wherever a network has finite values
OUTSIDE = "numbers that leave PyTorch (`{}`)"
HELD = "`detach`, `.data` or `no_grad`"


_real = lambda t: t.is_floating_point() or t.is_complex()
_place = lambda t: t.untyped_storage()._cdata if t.layout is torch.strided else id(t)


class TracedStep(NamedTuple):
    """One operation on something that depends on the input.

    Attributes:
        name: As the dispatcher knows it.
        after: Steps that wrote what it reads, by their place.
        constant: Whether what it writes is the same throughout a region.
        why: What keeps it from being piecewise affine; empty if nothing does.
        cut: Whether autograd has no derivative of it.
        kink: Where it bends.
    """

    name: str
    after: frozenset[int]
    constant: bool = False
    why: str = ""
    cut: bool = False
    kink: Kink | None = None


@dataclass(slots=True)
class PiecewiseTrace:
    """The steps of one run.

    Attributes:
        steps: In their order.
        eps: Rounding of the least precise numbers that depend on the input.
        size: Largest finite of those numbers.
        read: Steps whose results Python read: all that follows may depend on them.
        strangers: Nodes of autograd that were computed out of sight, or from weights.
    """

    steps: list[TracedStep] = field(default_factory=list)
    eps: float = 0.0
    size: float = 0.0
    read: list[int] = field(default_factory=list)
    strangers: list[Any] = field(default_factory=list)
    _writers: dict[int, tuple[int, bool]] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)
    _deaf: bool = False

    def source(self, z: Tensor) -> None:
        """Follow what depends on this tensor."""
        with torch._C.DisableTorchFunction(), self.deaf():
            self._write([z], TracedStep("input", frozenset()))

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Follow nothing that is computed while the block runs."""
        before, self._deaf = self._deaf, True
        try:
            yield
        finally:
            self._deaf = before

    def behind(self, out: Tensor) -> list[TracedStep] | None:
        """The steps that a tensor depends on; None if it does not depend on the input."""
        with torch._C.DisableTorchFunction():
            at = self._writers.get(_place(out))
        if at is None and not self.read:
            return None
        waiting, seen = [*self.read, *([] if at is None else [at[0]])], set()
        while waiting:
            if (i := waiting.pop()) not in seen:
                seen.add(i)
                waiting += self.steps[i].after
        return [self.steps[i] for i in sorted(seen)]

    def constant(self, out: Tensor) -> bool:
        """Whether a tensor is the same throughout a region."""
        with torch._C.DisableTorchFunction():
            at = self._writers.get(_place(out))
        return at is None or at[1]

    def _write(self, outputs: Iterable[Tensor], step: TracedStep) -> None:
        self.steps.append(step)
        for t in outputs:
            place, varies = _place(t), not step.constant and _real(t)
            before = self._writers.get(place)
            self._writers[place] = (len(self.steps) - 1, not varies and (before or (0, True))[1])
            self._kept.append(t.untyped_storage() if t.layout is torch.strided else t)
            if varies and t.numel():
                self.eps = max(self.eps, torch.finfo(t.dtype).eps)
                sizes = t.detach().abs()
                top = float(sizes.amax())
                if not top < float("inf"):
                    top = float(sizes.nan_to_num(0.0, 0.0, 0.0).amax())
                self.size = max(self.size, top)

    def note(self, call: OperationCall) -> TracedStep | None:
        """The step that a call is about to be; None if nothing in it depends on the input."""
        if self._deaf:
            return None
        at = {
            n: [w for t in ts if (w := self._writers.get(_place(t)))]
            for n, ts in call.reads.items()
        }
        unseen = (t for ts in call.reads.values() for t in ts if _place(t) not in self._writers)
        self.strangers += [t.grad_fn for t in unseen if t.grad_fn]
        if call.random:
            return TracedStep(
                call.name, frozenset(), why=f"random numbers (`{spelled(call.name)}`)"
            )
        after = frozenset(i for ws in at.values() for i, _ in ws)
        if not after or call.name in SHAPED:
            return None
        varying = {n for n, ws in at.items() if not all(constant for _, constant in ws)}
        if call.looks:  # the same storage goes on
            return None
        if not varying:
            return TracedStep(call.name, after, constant=True)
        off_tape = not torch.is_grad_enabled() or not all(
            t.requires_grad
            for n in varying
            for t in call.reads[n]
            if (w := self._writers.get(_place(t))) and not w[1]
        )
        name = call.name
        if name == "_local_scalar_dense":
            return TracedStep(name, after, why=OUTSIDE.format("item"), cut=True)
        if call.odd:
            return TracedStep(name, after, why=f"complex numbers or bits (`{spelled(name)}`)")
        kink = kink_on_tape(name, call.given) if allowed(call.given, varying) else None
        step = kink is not None and (name in STEPS or kink.name == "bool")
        if off_tape and not step:
            says = f"something cut off from the derivative ({HELD}), which `{spelled(name)}` reads"
            return TracedStep(name, after, why=says, cut=True, kink=kink)
        why = "" if kink is not None else why_not(name, call.given, varying)
        if not why and not step and not call.real:
            why = f"numbers that are rounded to integers (`{spelled(name)}`)"
        return TracedStep(name, after, constant=step, why=why, kink=kink)

    def ran(self, step: TracedStep, call: OperationCall, out: Any) -> None:
        """Enter a step that has been made."""
        written = [t for t in (*tensors(out), *call.writes) if isinstance(t, Tensor)]
        earlier = frozenset(w[0] for t in written if (w := self._writers.get(_place(t))))
        self._write(written, step._replace(after=step.after | earlier))
        if not written or call.shapes:  # Python has read it
            self.read.append(len(self.steps) - 1)

    def leaves(self, name: str, value: Any) -> None:
        """Note that numbers are handed to the world outside, if they depend on the input."""
        after = frozenset(w[0] for t in tensors(value) if (w := self._writers.get(_place(t))))
        if after:
            why = OUTSIDE.format(name.strip("_"))
            self._write([], TracedStep(name, after, why=why, cut=True))
            self.read.append(len(self.steps) - 1)


@contextmanager
def tracing() -> Iterator[PiecewiseTrace]:
    """Follow everything that is computed while the block runs, from what is made a source."""
    trace = PiecewiseTrace()
    with ExitStack() as modes:
        modes.enter_context(_Spelled(trace))
        modes.enter_context(_Dispatched(trace))
        yield trace


class _Dispatched(DispatchMode):
    def __init__(self, trace: PiecewiseTrace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            call = OperationCall(func, args, kwargs)
            step = self.trace.note(call)
            out = func(*args, **kwargs)
            if step is not None:
                self.trace.ran(step, call, out)
            return out


class _Spelled(TorchFunctionMode):
    """Sees what never reaches the dispatcher."""

    def __init__(self, trace: PiecewiseTrace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in LEAVING:
            with torch._C.DisableTorchFunction():
                self.trace.leaves(name, args)
        with self.trace.deaf() if name in FINITE else nullcontext():
            return func(*args, **(kwargs or {}))


DENSE = 2**22  # entries of a matrix that is written out
CHUNK = 256  # gradients taken at once


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a network at one sample, on the autograd tape.

    Attributes:
        z: What goes in.
        out: What comes out.
        kinks: Where it bends or jumps in between, in the order of calls.
        why: What keeps it from being piecewise affine, by name; empty if nothing does.
        cut: What depends on the input behind the back of autograd; empty if nothing does.
        own: A function with a derivative of its own, which may be another's; empty if none.
        branches: Whether Python has read a Boolean that depends on the input.
        eps: Rounding of the least precise numbers.
        size: The largest of them.
    """

    z: Tensor
    out: Tensor
    kinks: list[Kink]
    why: str
    cut: str
    own: str
    branches: bool
    eps: float
    size: float

    @property
    def noise(self) -> float:
        """What rounding may change in any of its numbers."""
        return ROUNDINGS * self.eps * self.size


# The error of a sum of n products is at most n eps of their sizes, near sqrt(n) eps in practice; a
# thousand allows for layers with a million inputs, or for a hundred layers with ten thousand each.
ROUNDINGS = 1000


@contextmanager
def segment(
    model: nn.Module,
    x: Tensor,
    start: str | None = None,
    stop: str | None = None,
    at: Tensor | None = None,
) -> Iterator[Segment]:
    """The input of one module and the output of another, on the autograd tape.

    Args:
        model: Left as it was found.
        x: One sample, with its batch dimension.
        start: A module whose input is what goes in; the model's by default.
        stop: A module whose output is what comes out; the model's by default.
        at: What goes in instead of what the sample would give.
    """
    if at is None:
        require_model(model)
        mixing = [name for name, m in model.named_modules() if uses_batch_statistics(m)]
        if mixing:
            raise Refusal(
                f"Batch normalisation must use its running statistics, got `{mixing[0]}`, which "
                "takes those of the batch. Call `model.eval()` first, or give it running "
                "statistics."
            )
        if x.ndim < 2 or len(x) != 1:
            raise Refusal(
                f"`x` must be one sample with its batch dimension, got shape {tuple(x.shape)}. "
                "Take `x[:1]`."
            )
    like = next((p for p in model.parameters() if p.is_floating_point()), x)
    first = x if start is not None or at is None else at
    z = first.detach().to(like.device, like.dtype).clone().requires_grad_(start is None)
    found: dict[str, Tensor] = {}
    with still(model), torch.enable_grad(), ExitStack() as hooks:
        # fused attention has no second derivative
        with sdpa_kernel(SDPBackend.MATH), tracing() as trace:
            if start is not None:
                enter = _keep(found, trace, at)
                hooks.callback(_named(model, start).register_forward_pre_hook(enter).remove)
            else:
                trace.source(z)
            if stop is not None:

                def leave(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> None:
                    if "stop" not in found:  # what follows may work in place
                        found["stop"] = as_tensor(output)[0].clone()

                hooks.callback(_named(model, stop).register_forward_hook(leave).remove)
            whole = as_tensor(called(model, z.clone()))[0]  # the model may work in place
        for what, which in (("start", start), ("stop", stop)):
            if which is not None and what not in found:
                raise Refusal(
                    f"`{what}` must be called on this sample, got {which!r}, which is not. Name "
                    "another module."
                )
        z, out = found.get("start", z), found.get("stop", whole)
        steps = trace.behind(out)
        if steps is None:
            raise Refusal(
                "The output must depend on the input, got one that does not. Pass the module whose "
                "output does."
            )
        why = next((s.why for s in steps if s.why and not s.cut), "")
        cut = next((s.why for s in steps if s.cut), "")
        bent = [s.kink for s in steps if s.kink is not None]
        nodes = between([out.grad_fn, *(k.heights.grad_fn for k in bent)], z)
        if out.grad_fn not in nodes and out is not z:
            if not trace.constant(out):
                cut = cut or f"an output that is cut off from the derivative ({HELD})"
            out = out + 0 * z.sum().to(out)
        # one that does not depend on the input by the tape never changes its side
        kinks = [k for k in bent if not k.known or k.heights.grad_fn in nodes]
        written = handwritten(nodes)
        if between(trace.strangers, z):
            cut = cut or "something that is computed out of sight (in another thread)"
        own = f"`{written}`, a function with a derivative of its own" if written else ""
        yield Segment(
            z, out, kinks, why or own or cut, cut, own, bool(trace.read), trace.eps, trace.size
        )


def _keep(
    found: dict[str, Tensor], trace: PiecewiseTrace, at: Tensor | None
) -> Callable[..., tuple[Tensor, ...] | None]:
    def enter(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if "start" in found:
            return None
        if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
            raise Refusal(
                "`start` must be a module that reads a floating tensor first, got one that reads "
                f"{type(args[0]).__name__ if args else 'keywords only'}. Name another module."
            )
        given = args[0] if at is None else at.to(args[0])
        # storage of its own: what went before may be read elsewhere
        found["start"] = given.detach().clone().requires_grad_()
        trace.source(found["start"])
        return (found["start"].clone(), *args[1:])

    return enter


def widened(model: nn.Module, x: Tensor) -> nn.Module:
    """The model in float64, or as it is where it does not run so.

    Which side of a kink a unit is on is lost in the rounding of float32 for every sample that is
    near one, and in a network with a million units every sample is.
    """
    kinds = {t.dtype for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()}
    if kinds <= {torch.float64}:
        return model
    try:
        wide = duplicate(model).double()
        with still(wide), torch.no_grad():
            called(wide, x.detach().double().to(next(wide.parameters()).device))
    except (Refusal, RuntimeError, TypeError, ValueError, AttributeError):
        return model  # it cannot be copied, or casts by itself; it is then taken as it is
    return wide


def _named(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if name not in modules:
        known = ", ".join(list(modules)[1:13])
        raise Refusal(f"There is no module {name!r}; there are {known}.")
    return modules[name]


def linear(z: Tensor, out: Tensor) -> Operator:
    """The derivative of `out` by `z` as an operator; it holds on to the graph if it is large."""
    m, n = out.numel(), z.numel()
    flat = out.flatten()
    if m * n <= DENSE:
        eye = torch.eye(m, dtype=out.dtype, device=out.device)
        return Operator.of(torch.cat([pulled(flat, z, part) for part in eye.split(CHUNK)]))
    return Operator(
        (m, n),
        lambda v: pushed(flat, z, v.mT).mT,
        lambda y: pulled(flat, z, y.mT).mT,
        out.detach(),
    )


def pulled(flat: Tensor, z: Tensor, rows: Float[Tensor, "k m"]) -> Float[Tensor, "k n"]:
    """`Jᵀ y` for every row."""
    with explaining():
        grads = [
            torch.autograd.grad(flat, z, row, retain_graph=True, allow_unused=True)[0]
            for row in rows
        ]
    return torch.stack([torch.zeros_like(z) if g is None else g for g in grads]).flatten(1)


def pushed(flat: Tensor, z: Tensor, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k m"]:
    """`J v` for every row, as the derivative of `Jᵀ u` by `u`."""
    with explaining():
        push = pushforward(flat, [z])
        found = [push([row.reshape(z.shape)]) for row in rows]
    return torch.stack([torch.zeros_like(flat) if f is None else f for f in found])


# ------------------------------------------------------------------------------
# Which side of its kink every activation is on.


def activation_patterns(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The piece that every entry of every piecewise-linear activation is on, call by call.

    Args:
        model: Left as it was found.
        batch: As for `Subject`.

    Returns:
        By `"relu #1"`, in the order of the calls: 0, 1, ... for each entry.

    Raises:
        Refusal: If the model cannot be run on the batch.
    """
    live = mapped(
        prepared(model, batch), lambda t: t.requires_grad_() if t.is_floating_point() else t
    )
    with still(model), torch.enable_grad(), tracing() as trace:
        for t in tensors(live):
            if t.requires_grad:
                trace.source(t)
        called(model, mapped(live, lambda t: t.clone()))
    seen = (step.kink for step in trace.steps if step.kink is not None)
    return {f"{kink.name} #{i}": kink.side.detach() for i, kink in enumerate(seen, start=1)}


# ------------------------------------------------------------------------------
# Whether a network does what was read off its tape: it is evaluated again, and compared.
#
# The tables of operations say that a network is piecewise affine, and autograd says with which
# slopes. Neither has to be believed: inside a region every height and every output is an affine
# function, so that what they are at another point of it is known from the slopes. A bend that was
# not seen, a hook that changes gradients, a function with another's derivative or a network that is
# another one at every call give other numbers there.


TRIES = 2  # random directions in which a map is tried
SHRINK = 16.0  # by which a step is shortened that left the region
FAR = 10.0  # lengths of the sample: how far a network without boundaries is tried
INSIDE = 0.9  # of the distance to the nearest boundary


def moves(z: Tensor) -> list[Tensor]:
    """Some directions of length one, always the same, with no trace in any random state."""
    draw = torch.Generator().manual_seed(z.numel())
    found = [torch.randn(z.shape, generator=draw, dtype=torch.float64) for _ in range(TRIES)]
    return [(d / d.norm()).to(z) for d in found]


def length(z: Tensor) -> float:
    """Of a sample, or 1 at zero."""
    return float(z.detach().double().norm()) or 1.0


def told(part: Segment) -> Tensor:
    """All heights and outputs in one row."""
    known = [k.heights.flatten() for k in part.kinks if k.known]
    return torch.cat([*(h.to(part.out) for h in known), part.out.flatten()])


def other_side(a: Segment, b: Segment) -> str:
    """The first kink that is on another side at another point; empty if it is the same region."""
    if [k.name for k in a.kinks] != [k.name for k in b.kinks]:
        return "a branch of the program"
    pairs = zip(a.kinks, b.kinks, strict=True)
    return next(
        (
            f"`{k.name}`"
            for k, m in pairs
            if not (k.side.shape == m.side.shape and bool((k.side == m.side).all()))
        ),
        "",
    )


def agree(a: Segment, b: Segment, was: Tensor, now: Tensor, change: Tensor) -> bool:
    """Whether numbers have changed by what was foretold, up to the rounding of either run."""
    if was.shape != now.shape or not torch.equal(was.isfinite(), now.isfinite()):
        return False
    off = (now.detach() - was.detach() - change).double().abs()
    room = a.noise + b.noise + ROUNDINGS * a.eps * float(change.double().abs().nan_to_num().max())
    return bool((off[was.isfinite()] <= room).all())


def require_map(
    model: nn.Module, x: Tensor, ends: tuple[str | None, str | None], part: Segment, A: Operator
) -> None:
    """Raise unless a map is the network at other points of the region."""
    room = length(part.z)
    first, second = moves(part.z)
    # in float64 a short step, which seldom leaves the region, changes much more than rounding does
    size = room * min(0.1, max(1e-3, 1000 * ROUNDINGS * part.eps))
    left = "its output"
    while left and size > ROUNDINGS * part.eps * room:
        # a unit at its end stays where it is on one way of the two
        steps = (size * first, -size * first)
        left = next(filter(None, (_tried(model, x, ends, part, A, s) for s in steps)), "")
        size /= SHRINK
    if left:
        raise Refusal(
            f"The sample must lie inside a region, got one where {left} changes its side, up "
            "to rounding. Move it a little, e.g. `x + 1e-6 * torch.randn_like(x)`."
        )
    _tried(model, x, ends, part, A, room * second)


def _tried(
    model: nn.Module,
    x: Tensor,
    ends: tuple[str | None, str | None],
    part: Segment,
    A: Operator,
    step: Tensor,
) -> str:
    """What is on another side a step away; else the map must be right there."""
    with segment(model, x, *ends, at=part.z + step) as there:
        left = other_side(part, there)
        change = A.apply(step.reshape(-1, 1))[:, 0]
        if not left and not agree(part, there, part.out.flatten(), there.out.flatten(), change):
            raise disagreement("other numbers in the region than its derivative foretells")
        return left


def require_distance(
    model: nn.Module, x: Tensor, part: Segment, reach: float, nearest: Tensor | None
) -> None:
    """Raise unless the network is affine within a distance, and changes beyond it.

    Args:
        model: As it is asked about.
        x: The sample.
        part: The network there.
        reach: The distance.
        nearest: The step to the nearest boundary.
    """
    far = FAR * length(part.z)
    flat = told(part)
    if reach <= ROUNDINGS * part.eps * length(part.z):  # on a boundary, up to rounding
        return
    for direction in moves(part.z):
        for size in {INSIDE * min(reach, far), INSIDE * min(reach, 100 * far)}:
            step = size * direction
            change = pushed(flat, part.z, step.reshape(1, -1))[0]
            with segment(model, x, at=part.z + step) as there:
                left = other_side(part, there)
                if left:
                    raise disagreement(f"{left} on another side nearer than the distance")
                if not agree(part, there, flat, told(there), change):
                    raise disagreement("other numbers nearby than its derivative foretells")
    if nearest is not None:
        # where the rounding of the sample is a part of the distance, neither side can be told
        margin = 1e-6 + ROUNDINGS * part.eps * length(part.z) / max(float(nearest.norm()), 1e-300)
        if margin > 0.1:
            return
        with segment(model, x, at=part.z + (1 - margin) * nearest) as before:
            if left := other_side(part, before):
                raise disagreement(f"{left} on another side nearer than the distance")
        with segment(model, x, at=part.z + (1 + margin) * nearest) as beyond:
            if not other_side(part, beyond):
                raise disagreement("no change where a boundary was foretold")


def has_slope(
    model: nn.Module, x: Tensor, ends: tuple[str | None, str | None], part: Segment, A: Operator
) -> bool:
    """Whether some difference quotient agrees with a derivative, in each of some directions."""
    wide = widened(model, x)
    with segment(wide, x, *ends) as there:
        z = there.z.detach()
    for direction in moves(z):
        slope = A.apply(direction.to(part.z).reshape(-1, 1))[:, 0].double()
        errors = []
        for size in (
            1e-2,
            1e-3,
            1e-4,
            1e-5,
            1e-6,
        ):  # of which one is within a bend, and not rounding
            step = size * length(z) * direction
            with segment(wide, x, *ends, at=z + step) as a:
                ahead = a.out.detach().flatten().double()
            with segment(wide, x, *ends, at=z - step) as b:
                behind = b.out.detach().flatten().double()
            errors.append(float(((ahead - behind) / (2 * float(step.norm())) - slope).norm()))
        if not min(errors) <= 1e-3 * float(slope.norm()) + part.noise:
            return False
    return True


def disagreement(what: str) -> Refusal:
    """For a certificate that failed."""
    return Refusal(
        f"The network must do what was read off it where it is evaluated again, got {what}. "
        "Exchange the part that changes gradients, or that PyTorch cannot see."
    )


# ------------------------------------------------------------------------------
# The affine map that a piecewise-affine network is near one sample.


@dataclass(frozen=True, slots=True, repr=False)
class AffineMap(Brief):
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

    Cost: five forward passes or some more, for the map is tried; a backward pass for each output if
    the matrix is written out.
    """
    wide = widened(model, x)
    with segment(wide, x, start, stop) as part:
        if part.why:
            raise Refusal(
                f"The network must be piecewise affine between the two ends, got {part.why}. Take "
                "its linearisation, `theory.piecewise_affine.jacobian(model, x)`, or exchange what "
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


def sample_affine(
    subject: Subject, index: int = 0, *, start: str | None = None, stop: str | None = None
) -> AffineMap:
    """The affine map around one sample of a subject whose batch is a tensor; see `local_affine`.

    Args:
        subject: A model that treats every sample by itself.
        index: Which sample.
        start: As for `local_affine`.
        stop: As for `local_affine`.

    Raises:
        Refusal: If there is no such sample, samples are mixed, or the network is not piecewise
            affine.
    """
    batch = subject.batch
    if not isinstance(batch, Tensor) or not 0 <= index < subject.count or subject.batch_dim:
        raise Refusal(
            f"The affine map is that around one of the samples of a tensor, got sample {index} "
            f"of {subject.count} in a {type(batch).__name__}. Use "
            "`theory.piecewise_affine.local_affine`."
        )
    subject.require_apart("local_affine")
    return local_affine(subject.model, batch[index : index + 1], start, stop)

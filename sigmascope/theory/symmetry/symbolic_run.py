"""One run of a model, with the rule of every operation applied as it happens.

The idea: beside the numbers of a run go labels, one for each number, that say which unit's scale
multiplies it (`scales`); an operation is known by what it does to labels (`operations`) and
which equations it imposes on them (`scales`). The invariant: an operation without a rule
lets nothing that it reads be rescaled, so that a gap loses an invariant and never claims one.

Source: Le & Jegelka 2022, Sec. 4, for dense layers; the rules for all else are derived by hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from sigmascope.models.samples import tensors
from sigmascope.models.trace import DispatchMode
from sigmascope.theory.symmetry.operations import MADE, MOVES, RULES, unknown
from sigmascope.theory.symmetry.scales import ZEROS, Shadows, memory_of

# ------------------------------------------------------------------------------
# Over which axes the gradient of a tensor sums to zero, whatever the loss.
#
# A softmax, and the mean that a normaliser subtracts, forget a number that is added to all that
# they read along an axis. Hence gradients there sum to zero, and so do those of the weights that
# wrote it.


Axes = frozenset[int]
Sums = frozenset[Axes]  # over each of these sets of axes the gradient sums to zero
NONE: Sums = frozenset()


@dataclass(frozen=True, slots=True)
class SymbolicStep:
    """One operation: its arguments, and names of what it read and wrote."""

    name: str
    arguments: list[Any]
    read: tuple[Any, ...]
    wrote: tuple[Any, ...]
    out: Any


def zero_sums(
    steps: Sequence[SymbolicStep], wanted: Mapping[Any, str], ends: Sequence[Any]
) -> dict[str, Sums]:
    """Sums of gradients that are zero, for some tensors by their name.

    Args:
        steps: Of one run, in order.
        wanted: Names of the tensors that are asked for.
        ends: What the run returned.
    """
    found: dict[Any, Sums] = dict.fromkeys(ends, NONE)
    for step in reversed(steps):
        outs = [found[k] for k in step.wrote if k in found]
        if not outs:
            continue  # nobody read it: no gradient comes from here
        values = list(tensors([step.arguments]))
        rule = ZERO_SUMS.get(step.name)
        each = [NONE] * len(values)
        if rule is not None:
            each = rule(step, values, [found.get(k) for k in step.wrote])
        for key, value, sums in zip(step.read, values, each, strict=False):
            if value.is_floating_point() and key not in step.wrote:
                if key in found:  # the gradient is a sum of two
                    sums = frozenset(a | b for a, b in product(found[key], sums))
                found[key] = sums
    return {name: found[key] for key, name in wanted.items() if found.get(key)}


Rule = Callable[[SymbolicStep, list[Tensor], list[Sums | None]], list[Sums]]


def _layer_norm(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    x = values[0]
    axes = frozenset(range(x.ndim - len(step.arguments[1]), x.ndim))
    return [frozenset({axes}), *[NONE] * (len(values) - 1)]


def _batch_norm(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    x, training = values[0], step.arguments[5]
    axes = frozenset(a for a in range(x.ndim) if a != 1)
    return [frozenset({axes}) if training else NONE, *[NONE] * (len(values) - 1)]


def _same(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    """Sums, copies and multiplication by numbers: the gradient is the same, or a sum of it."""
    shape = tensor_of(step.out).shape
    tensor_factors = step.name in ("mul", "div") and len(values) > 1
    return [
        NONE if tensor_factors and (i > 0 or values[1].numel() > 1) else _broadcast(s, shape, v)
        for i, v in enumerate(values)
        for s in (outs[0] or NONE,)
    ]


def tensor_of(out: Any) -> Tensor:
    """The first tensor of what an operation returned."""
    return next(tensors([out]))


def _broadcast(sums: Sums, shape: Sequence[int], value: Tensor) -> Sums:
    """Gradient of what was repeated to `shape`: summed over the axes that it lacked."""
    lead = len(shape) - value.ndim
    missing = {a for a in range(len(shape)) if a < lead or value.shape[a - lead] != shape[a]}
    return frozenset(frozenset(a - lead for a in axes - missing) for axes in sums)


def _reshaped(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    old, new = list(values[0].shape), list(tensor_of(step.out).shape)
    # which axes of one shape make up which of another of the same size
    parts: list[tuple[Axes, Axes]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start, end = i, j
        a = b = 1
        while a != b or (i == start and j == end):
            if (a <= b and i < len(old)) or j >= len(new):
                a *= old[i]
                i += 1
            else:
                b *= new[j]
                j += 1
        parts.append((frozenset(range(start, i)), frozenset(range(end, j))))
    back = lambda axes: frozenset(a for ours, theirs in parts if axes & theirs for a in ours)
    return [frozenset(back(axes) for axes in outs[0] or NONE)]


def _permuted(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    n = values[0].ndim
    order = list(range(n))
    if step.name == "permute":
        order = [d % n for d in step.arguments[1]]
    elif n > 1:
        a, b = (0, 1) if step.name == "t" else (d % n for d in step.arguments[1:3])
        order[a], order[b] = order[b], order[a]
    return [frozenset(frozenset(order[a] for a in axes) for axes in outs[0] or NONE)]


def _product(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    """Gradients of a product: `G Bᵀ` and `Aᵀ G`; of what is added, `G` itself."""
    added = values[:-2]
    n = values[-1].ndim
    rows, columns = frozenset({n - 2}), frozenset({n - 1})
    sums = outs[0] or NONE
    left = frozenset({rows}) if rows in sums else NONE
    right = frozenset({columns}) if columns in sums else NONE
    shape = tensor_of(step.out).shape
    return [*(_broadcast(sums, shape, v) for v in added), left, right]


def _convolution(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    others = frozenset(a for a in range(tensor_of(step.out).ndim) if a != 1)
    forgets = any(axes <= others for axes in outs[0] or NONE)
    return [NONE, NONE, *[frozenset({frozenset()}) if forgets else NONE] * (len(values) - 2)]


def _embedding(step: SymbolicStep, values: list[Tensor], outs: list[Sums | None]) -> list[Sums]:
    last = frozenset({tensor_of(step.out).ndim - 1})
    return [frozenset({frozenset({1})}) if last in (outs[0] or NONE) else NONE, NONE]


ZERO_SUMS: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            ("_softmax", "_safe_softmax", "_log_softmax"),
            lambda step, values, outs: [
                frozenset({frozenset({step.arguments[1] % values[0].ndim})})
            ],
        ),
        "native_layer_norm": _layer_norm,
        "native_batch_norm": _batch_norm,
        **dict.fromkeys(("add", "sub", "mul", "div", "clone", "_to_copy", "neg", "alias"), _same),
        **dict.fromkeys(("view", "_unsafe_view", "unsqueeze", "squeeze"), _reshaped),
        **dict.fromkeys(("t", "transpose", "permute"), _permuted),
        "expand": lambda step, values, outs: [
            _broadcast(outs[0] or NONE, tensor_of(step.out).shape, values[0])
        ],
        **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _product),
        "convolution": _convolution,
        "embedding": _embedding,
    }
)


TURNS = ("transpose_", "t_", "squeeze_", "unsqueeze_", "detach_")  # of axes, in place
WORDS = {
    "_softmax": "a softmax",
    "_safe_softmax": "a softmax",
    "_log_softmax": "a log-softmax",
    "mkldnn_rnn_layer": "a fused recurrent layer",
    "lstm": "a fused recurrent layer",
}


# ------------------------------------------------------------------------------
# The run itself.


class SymbolicTrace(DispatchMode):
    """Applies the rules, and keeps the steps that the shifts are read from."""

    def __init__(self, shadows: Shadows) -> None:
        super().__init__()
        self.shadows = shadows
        self.steps: list[SymbolicStep] = []
        self._writes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [self.key(t) for t in tensors((list(args), kwargs))]
        out = func(*args, **kwargs)
        self.shadows.hold(tensors((args, kwargs, out)))
        name = func.overloadpacket.__name__
        # every argument in the order of the schema, with defaults
        specs = func._schema.arguments
        arguments = list(args)
        for spec in specs[len(args) :]:
            arguments.append(kwargs.get(spec.name, spec.default_value))
        self._label(name, func, arguments, out)
        for value, spec in zip(arguments, specs, strict=True):
            if spec.alias_info is not None and spec.alias_info.is_write:  # changed in place
                for t in tensors([value]):
                    memory = memory_of(t)
                    self._writes[memory] = self._writes.get(memory, 0) + 1
        outs = [self.key(t) for t in tensors(out)]
        self.steps.append(SymbolicStep(name.rstrip("_"), arguments, tuple(read), tuple(outs), out))
        return out

    def key(self, t: Tensor) -> tuple[Any, ...]:
        """A name for what a tensor holds now: its memory, geometry and number of writes."""
        memory, geometry = memory_of(t), (tuple(t.shape),)
        if t.layout == torch.strided:
            geometry += (tuple(t.stride()), int(t.storage_offset()))
        return (memory, *geometry, self._writes.get(memory, 0))

    def _label(self, name: str, func: Any, arguments: list[Any], out: Any) -> None:
        shadows = self.shadows
        if not any(t.numel() for t in tensors([out])):
            self._consumed(name, arguments, out)
            return
        if name in MADE:
            for t in tensors([out]):
                if t.is_floating_point() and name != "detach":
                    shadows.write(t, None, ZEROS if "zero" in name else "a constant")
            return
        base = name if name.startswith("_") else name.rstrip("_")
        rule = RULES.get(base)
        if name == "copy_":
            labels = shadows.of(arguments[1])
            target = arguments[0]
            spread = None if labels is None else labels.expand(target.shape)
            shadows.write(target, spread, shadows.why(arguments[1]))
        elif rule is not None:
            rule(shadows, arguments, out)
        elif base in MOVES:
            _moved(shadows, func, arguments, out)
        elif name in TURNS:
            return
        else:
            # a view, whose memory is that of what it was given, needs no rule, unless it reads the
            # memory as another kind of number
            given = {memory_of(t) for t in tensors(arguments)}
            shares = all(memory_of(t) in given for t in tensors([out]))
            recasts = base.startswith("view_as_") or "dtype" in func._overloadname
            if func._schema.is_mutable or not shares or recasts:
                self._consumed(base, arguments, out)

    def _consumed(self, name: str, arguments: list[Any], out: Any) -> None:
        unknown(self.shadows, arguments, out, WORDS.get(name, f"`{name}`"))


def _moved(shadows: Shadows, func: Any, arguments: list[Any], out: Tensor) -> None:
    """The same move, made by the labels."""
    moving = [t for t in tensors([arguments[0]]) if t.is_floating_point()]
    labels = {id(t): shadows.of(t) for t in moving}
    if all(ids is None for ids in labels.values()):
        shadows.write(out, None, shadows.why(moving[0]) if moving else "a constant")
        return

    def swap(value: Any) -> Any:
        if isinstance(value, Tensor) and id(value) in labels:
            ids = labels[id(value)]
            zeros = torch.zeros((), dtype=torch.int32).expand(value.shape)
            return (zeros if ids is None else ids).contiguous()
        if isinstance(value, list | tuple):
            return [swap(v) for v in value]
        return value.cpu() if isinstance(value, Tensor) else value

    positional = [s for s in func._schema.arguments if not s.kwarg_only]
    moved = func(*(swap(a) for a in arguments[: len(positional)]))
    written = out if isinstance(out, Tensor) else out[0]
    shadows.write(written, moved if isinstance(moved, Tensor) else moved[0])

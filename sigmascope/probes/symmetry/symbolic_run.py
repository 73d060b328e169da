"""One run of a model, with the rule of every operation applied as it happens.

The idea: beside the numbers of a run go labels, one for each number, that say which unit's scale
multiplies it (`scaled_tensors`); an operation is known by what it does to labels (`op_rules`) and
which equations it imposes on them (`scale_equations`). The invariant: an operation without a rule
lets nothing that it reads be rescaled, so that a gap loses an invariant and never claims one.

Source: Le & Jegelka 2022, Sec. 4, for dense layers; the rules for all else are derived by hand.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.execution.dispatch_modes import DispatchMode
from sigmascope.probes.samples.batches import tensors
from sigmascope.probes.symmetry.op_pointwise import unknown
from sigmascope.probes.symmetry.op_rules import MADE, MOVES, RULES
from sigmascope.probes.symmetry.scaled_tensors import ZEROS, Shadows
from sigmascope.probes.symmetry.zero_gradient_sums import Step

TURNS = ("transpose_", "t_", "squeeze_", "unsqueeze_", "detach_")  # of axes, in place
WORDS = {
    "_softmax": "a softmax",
    "_safe_softmax": "a softmax",
    "_log_softmax": "a log-softmax",
    "mkldnn_rnn_layer": "a fused recurrent layer",
    "lstm": "a fused recurrent layer",
}


class Trace(DispatchMode):
    """Applies the rules, and keeps the steps that the shifts are read from."""

    def __init__(self, shadows: Shadows) -> None:
        super().__init__()
        self.shadows = shadows
        self.steps: list[Step] = []
        self._writes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [self.key(t) for t in tensors((list(args), kwargs))]
        out = func(*args, **kwargs)
        self.shadows.hold(tensors((args, kwargs, out)))
        name = func.overloadpacket.__name__
        arguments = _bound(func, args, kwargs)
        self._label(name, func, arguments, out)
        for t in _written(func, arguments):
            memory = t.untyped_storage().data_ptr()
            self._writes[memory] = self._writes.get(memory, 0) + 1
        outs = [self.key(t) for t in tensors(out)]
        self.steps.append(Step(name.rstrip("_"), arguments, tuple(read), tuple(outs), out))
        return out

    def key(self, t: Tensor) -> tuple[Any, ...]:
        """A name for what a tensor holds now: its memory, geometry and number of writes."""
        memory = t.untyped_storage().data_ptr()
        geometry = (tuple(t.shape), tuple(t.stride()), int(t.storage_offset()))
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
        elif func._schema.is_mutable or not _shares(arguments, out) or _recasts(func):
            self._consumed(base, arguments, out)

    def _consumed(self, name: str, arguments: list[Any], out: Any) -> None:
        unknown(self.shadows, arguments, out, WORDS.get(name, f"`{name}`"))


def _bound(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Every argument in the order of the schema, with defaults."""
    specs = func._schema.arguments
    given = list(args)
    for spec in specs[len(given) :]:
        given.append(kwargs.get(spec.name, spec.default_value))
    return given


def _written(func: Any, arguments: list[Any]) -> Iterator[Tensor]:
    """What an operation changed in place."""
    for value, spec in zip(arguments, func._schema.arguments, strict=True):
        if spec.alias_info is not None and spec.alias_info.is_write:
            yield from tensors([value])


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


def _shares(arguments: list[Any], out: Any) -> bool:
    """Whether an operation is a view: what it returns is memory of what it was given."""
    given = {t.untyped_storage().data_ptr() for t in tensors(arguments)}
    return all(t.untyped_storage().data_ptr() in given for t in tensors([out]))


def _recasts(func: Any) -> bool:
    """Whether a view reads the memory as another kind of number."""
    name = func.overloadpacket.__name__
    return name.startswith("view_as_") or "dtype" in func._overloadname

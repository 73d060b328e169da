"""What a model still does to what its last weights write, as a function that can be run by itself.

One run is watched as Python spells it. What a weight makes of data is a source, and everything that
is made of sources without a weight remembers from which, and how. What the output remembers at the
end are the operations behind the last weights: one layer's, or every step's of a loop, every
branch's of a sum. The invariant: run again on what those weights wrote, they give the output. On
anything else they give what the output would be if the weights were others, which tells what
outputs are possible at all. A memory lives as long as a tensor that has it, so that a deep
network's are few.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch, as_tensor, tensors

MOVING = frozenset(
    (
        "view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "transpose", "permute",
        "movedim", "contiguous", "clone", "t", "expand", "__getitem__", "getitem", "narrow",
        "select", "chunk", "split", "unbind", "to", "float", "type_as", "swapaxes", "ravel",
        "moveaxis", "view_as", "__get__", "size", "dim", "dropout", "alias", "detach", "cat",
        "stack", "concat", "concatenate", "hstack", "vstack", "double", "half", "bfloat16",
    )
)  # fmt: skip
OTHER = 100  # times what the last weight wrote is not what it wrote
RECURRENT = {"lstm": 1.0, "gru": 1.0, "rnn_tanh": 1.0}  # what such layers write lies below this


@dataclass(eq=False, slots=True)
class _Made:
    """How a tensor was made: what a weight wrote, or an operation on such.

    Attributes:
        func: The operation; None of a source.
        args: Its arguments, with `_Part` in the place of tensors that were made themselves.
        kwargs: Likewise.
        value: What a weight wrote; None of an operation.
        bound: What that cannot exceed.
        origin: The tensor that the weight wrote, as long as somebody has it.
    """

    func: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    value: Tensor | None = None
    bound: float = torch.inf
    origin: Callable[[], Tensor | None] = field(default=lambda: None)

    def settle(self) -> None:
        """Let go of the copy of what a weight wrote, where nothing has written into that since."""
        now = self.origin()
        if now is not None and self.value is not None and _same(self.value, now):
            self.value = now.detach()

    @property
    def read(self) -> list["_Part"]:
        """What was read of others."""
        return [*_parts((self.args, dict(self.kwargs)))]


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the tensors that an operation gave."""

    of: _Made
    number: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """The operations behind the last weights.

    Attributes:
        start: What the last weight wrote; of several weights everything, in one row.
        output: What became of it.
        names: Of the operations that do more than move numbers, in their order.
        bound: What the last weights' own operations cannot exceed: 1 behind a recurrent layer with
            tanh, else infinite.
        closing: Name of the last operation that does more than move numbers, whatever part of the
            output one looks at; empty if there is none.
    """

    start: Tensor
    output: Tensor
    names: tuple[str, ...]
    bound: float
    closing: str
    _last: _Part = field(repr=False)
    _order: tuple[_Made, ...] = field(repr=False)  # sources first, then in the order of the run

    def __call__(self, start: Tensor) -> Tensor:
        """The output, if the last weights had written this; differentiable.

        Args:
            start: Of the shape of `self.start`.
        """
        sources = [m for m in self._order if m.value is not None]
        known: dict[int, list[Tensor]] = {}
        if len(sources) == 1:
            known[id(sources[0])] = [start.clone()]  # a step may work in place
        else:
            values = [m.value for m in sources if m.value is not None]
            flat = start.split([v.numel() for v in values])
            known |= {id(m): [part.to(v.dtype).view(v.shape).clone()]
                      for m, part, v in zip(sources, flat, values, strict=True)}  # fmt: skip
        for made in self._order:
            if made.func is not None:
                args, kwargs = _filled(made.args, known), _filled(dict(made.kwargs), known)
                known[id(made)] = [*tensors(made.func(*args, **kwargs))]
        return known[id(self._last.of)][self._last.number]


def tail(model: nn.Module, batch: Batch) -> Tail:
    """The operations behind the last weight of a model.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If no weight is seen to meet data on the way to the output, or the operations do
            not give the output when they are run again.

    Cost: one forward pass.
    """
    with still(model), torch.no_grad(), LastWeight(model) as watch:
        output = as_tensor(called(model, batch))[0]
    return faithful(model, watch.tail(output))


def faithful(model: nn.Module, ending: Tail | None) -> Tail:
    """A tail that gives the output when it is run again.

    Args:
        model: Of which it is; left as it was found.
        ending: From a run of it.

    Raises:
        Refusal: If there is none, or it gives something else, be it only after other numbers.
    """
    if ending is None:
        raise Refusal(
            "The output must come from a weight that is seen to meet data, got none. Apply weights "
            "by torch's own operations."
        )
    with still(model), torch.no_grad():
        again = [ending(ending.start)]
        ending(OTHER * ending.start + 1)  # what remembers it gives something else afterwards
        again.append(ending(ending.start))
    if not all(_alike(one, ending.output) for one in again):
        raise Refusal(
            "The operations behind the last weight must give the output when they are run again, "
            "got another one. An operation there keeps a state, or draws random numbers."
        )
    return ending


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, equal_nan=True)


class LastWeight(TorchFunctionMode):
    """Follows what comes from weights alone, and what comes from the last weights that met data."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._weights: dict[int, Tensor] = {id(p): p for p in model.parameters()}
        self._made: Any = WeakTensorKeyDictionary()  # a part of something made, by its tensor

    def tail(self, output: Tensor) -> Tail | None:
        """What lies between the last weights and an output; None where that is not known.

        It is not where no weight was seen, or different operations close different parts.

        Args:
            output: Of the run that was watched, as it is.
        """
        last = self._made.get(output)
        if last is None:
            return None
        order = _in_order(last.of)
        closings = _closings(last)
        if len(closings) != 1:
            return None
        for made in order:
            made.settle()
        values = [m.value for m in order if m.value is not None]
        if len(values) > 1 and any(not v.is_floating_point() or v.is_nested for v in values):
            return None
        start = values[0] if len(values) == 1 else torch.cat([v.flatten() for v in values])
        bounds = {m.bound for m in order if m.value is not None}
        bound = bounds.pop() if len(bounds) == 1 else torch.inf
        names = tuple(n for n in (_word(m) for m in order if m.func) if n not in MOVING)
        (closing,) = closings
        return Tail(start, output.detach(), names, bound, closing, last, order)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        weights = [t for t in read if id(t) in self._weights]
        whole = bool(weights) and len(weights) == len(read)
        made = None
        if not weights and any(t in self._made for t in read):  # before it writes in place
            made = _Made(func, *(self._without(part) for part in (args, kwargs)))
        out = func(*args, **kwargs)
        wrote = tuple(tensors(out))
        if whole:
            self._weights.update((id(t), t) for t in wrote)
        elif weights:
            bound = RECURRENT.get(_name(func), torch.inf)
            for t in wrote:  # a later step may write into it
                value = t.detach().clone() if t.layout == torch.strided else t
                self._made[t] = _Part(_Made(value=value, bound=bound, origin=ref(t)))
        elif made is not None:
            for number, t in enumerate(wrote):
                self._made[t] = _Part(made, number)
        return out

    def _without(self, value: Any) -> Any:
        """The same with what is remembered of tensors in their place."""
        return _mapped(value, lambda t: self._made.get(t, t))


def _in_order(last: _Made) -> tuple[_Made, ...]:
    """What something was made of, each behind what it reads, and itself."""
    found: list[_Made] = []
    seen: set[int] = set()
    left = [(last, False)]
    while left:
        made, ready = left.pop()
        if ready:
            found.append(made)
        elif id(made) not in seen:
            seen.add(id(made))
            left.append((made, True))
            left += [(part.of, False) for part in reversed(made.read)]
    return tuple(sorted(found, key=lambda m: m.value is None))


def _closings(last: _Part) -> set[str]:
    """Operations that do more than move numbers and close some part of what was made."""
    found: set[str] = set()
    seen: set[int] = set()
    left = [last.of]
    while left:
        made = left.pop()
        if id(made) in seen:
            continue
        seen.add(id(made))
        word = _word(made)
        if made.value is not None or word not in MOVING:
            found.add(word)
        else:
            left += [part.of for part in made.read]
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    dense = one.layout == torch.strided and not one.is_nested
    return dense and torch.equal(one, other)


def _word(made: _Made) -> str:
    return "" if made.func is None else _name(made.func).strip("_")


def _name(func: Any) -> str:
    return getattr(func, "__name__", "")


def _parts(value: Any) -> Iterator[_Part]:
    if isinstance(value, _Part):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _parts(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)


def _filled(value: Any, known: Mapping[int, list[Tensor]]) -> Any:
    return _mapped(value, lambda p: known[id(p.of)][p.number], kind=_Part)


def _mapped(value: Any, change: Callable[[Any], Any], kind: type = Tensor) -> Any:
    """The same with tensors (or parts) changed; a list stays one, for it may index."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(part, change, kind) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_mapped(part, change, kind) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value

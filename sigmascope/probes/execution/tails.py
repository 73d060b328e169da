"""What a model still does to what its last weights write, as a function that can be run by itself.

One run is watched as Python spells it. Whenever a weight meets data, what was seen before is let
go; what is left at the end are the operations behind the last weight. The invariant: run again on
what the last weight wrote, they give the output. On anything else they give what the output would
be if the weights were others, which tells what outputs are possible at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch, as_tensor, tensors

MOVING = frozenset(
    (
        "view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "transpose", "permute",
        "movedim", "contiguous", "clone", "t", "expand", "__getitem__", "getitem", "narrow",
        "select", "chunk", "split", "unbind", "to", "float", "type_as", "swapaxes", "ravel",
        "moveaxis", "view_as", "__get__", "size", "dim", "dropout", "alias", "detach",
    )
)  # fmt: skip
OTHER = 100  # times what the last weight wrote is not what it wrote
RECURRENT = {"lstm": 1.0, "gru": 1.0, "rnn_tanh": 1.0}  # what such layers write lies below this


@dataclass(frozen=True, slots=True)
class _Step:
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    wrote: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Tail:
    """The operations behind the last weight.

    Attributes:
        start: What the last weight wrote.
        output: What became of it.
        names: Of the operations that do more than move numbers, in their order.
        bound: What the last weight's own operation cannot exceed: 1 behind a recurrent layer with
            tanh, else infinite.
    """

    start: Tensor
    output: Tensor
    names: tuple[str, ...]
    bound: float
    _origin: Tensor = field(repr=False)  # by whose identity the steps know the start
    _last: Tensor = field(repr=False)
    _steps: tuple[_Step, ...] = field(repr=False)

    @property
    def closing(self) -> str:
        """Name of the last operation that does more than move numbers; empty if there is none."""
        return self.names[-1] if self.names else ""

    def __call__(self, start: Tensor) -> Tensor:
        """The output, if the last weight had written this; differentiable.

        Args:
            start: Of the shape of `self.start`.
        """
        known: dict[int, Tensor] = {id(self._origin): start.clone()}  # a step may work in place
        for step in self._steps:
            args, kwargs = _replaced(step.args, known), _replaced(dict(step.kwargs), known)
            wrote = [*tensors(step.func(*args, **kwargs))]
            known.update((id(old), new) for old, new in zip(step.wrote, wrote, strict=True))
        return known[id(self._last)]


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


def _same(one: Tensor, other: Tensor) -> bool:
    dense = one.layout == torch.strided and not one.is_nested
    return dense and torch.equal(one, other)


class LastWeight(TorchFunctionMode):
    """Follows what comes from weights alone, and what comes from the last weight that met data."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._weights: dict[int, Tensor] = {id(p): p for p in model.parameters()}
        self._alive: dict[int, Tensor] = {}
        self._starts: tuple[tuple[Tensor, Tensor], ...] = ()
        self._steps: list[_Step] = []
        self._bound = torch.inf

    def tail(self, output: Tensor) -> Tail | None:
        """What lies between the last weight and an output; None where none was seen.

        Args:
            output: Of the run that was watched, as it is.
        """
        read = {id(t) for s in self._steps for t in tensors((s.args, s.kwargs))} | {id(output)}
        starts = (pair for pair in self._starts if id(pair[0]) in read)
        origin, start = next(starts, (None, None))
        if origin is None or start is None or id(output) not in self._alive:
            return None
        names = (_name(s.func).strip("_") for s in self._steps)
        own = tuple(n for n in names if n not in MOVING)
        if _same(start, origin):  # nothing has written into it: one of them is enough
            start = origin.detach()
        steps = tuple(self._steps)
        return Tail(start, output.detach(), own, self._bound, origin, output, steps)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        out = func(*args, **kwargs)
        wrote = tuple(tensors(out))
        weights = [t for t in read if id(t) in self._weights]
        if weights and len(weights) == len(read):
            self._weights.update((id(t), t) for t in wrote)
        elif weights and wrote:
            self._restart(func, wrote)
        elif wrote and any(id(t) in self._alive for t in read):
            self._steps.append(_Step(func, args, kwargs, wrote))
            self._alive.update((id(t), t) for t in wrote)
        return out

    def _restart(self, func: Any, wrote: tuple[Tensor, ...]) -> None:
        self._steps.clear()
        self._starts = tuple((t, t.clone()) for t in wrote)  # a later step may write into it
        self._alive = {id(t): t for t in wrote}
        self._bound = RECURRENT.get(_name(func), torch.inf)


def _name(func: Any) -> str:
    return getattr(func, "__name__", "")


def _replaced(value: Any, known: Mapping[int, Tensor]) -> Any:
    """The same with known tensors in the place of others; a list stays one, for it may index."""
    if isinstance(value, Tensor):
        return known.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(part, known) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_replaced(part, known) for part in value]
        named = isinstance(value, tuple) and type(value) is not tuple
        return type(value)(*parts) if named else type(value)(parts)
    return value

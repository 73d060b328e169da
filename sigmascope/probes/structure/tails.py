"""What a model still does to what its last weights write, as a function that can be run by itself.

One run is watched as Python spells it. Whenever a weight meets data, what was seen before is let
go; what is left at the end are the operations behind the last weight. The invariant: run again on
what the last weight wrote, they give the output. On anything else they give what the output would
be if the weights were others, which tells what outputs are possible at all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch, as_tensor

MOVING = frozenset(
    (
        "view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "transpose", "permute",
        "movedim", "contiguous", "clone", "t", "expand", "__getitem__", "getitem", "narrow",
        "select", "chunk", "split", "unbind", "to", "float", "type_as", "swapaxes", "ravel",
        "moveaxis", "view_as", "__get__", "size", "dim", "dropout", "alias", "detach",
    )
)  # fmt: skip
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
            wrote = [*_tensors(step.func(*args, **kwargs))]
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
    with still(model), torch.no_grad(), _Watch(model) as watch:
        output = as_tensor(called(model, batch))[0]
    origin, start = watch.start_of(output)
    if start is None or origin is None:
        raise Refusal(
            "The output must come from a weight that is seen to meet data, got none. Apply weights "
            "by torch's own operations."
        )
    names = tuple(n for n in (_name(s.func).strip("_") for s in watch.steps) if n not in MOVING)
    steps = tuple(watch.steps)
    ending = Tail(start, output.clone(), names, watch.bound, origin, output, steps)
    with still(model), torch.no_grad():
        again = ending(start)
    if again.shape != output.shape or not torch.allclose(again, output, rtol=1e-3, equal_nan=True):
        raise Refusal(
            "The operations behind the last weight must give the output when they are run again, "
            "got another one. An operation there keeps a state, or draws random numbers."
        )
    return ending


class _Watch(TorchFunctionMode):
    """Follows what comes from weights alone, and what comes from the last weight that met data."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._weights: dict[int, Tensor] = {id(p): p for p in model.parameters()}
        self._alive: dict[int, Tensor] = {}
        self._starts: tuple[tuple[Tensor, Tensor], ...] = ()
        self.steps: list[_Step] = []
        self.bound = torch.inf

    def start_of(self, output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Which of the tensors that the last weight wrote became the output, and as it was then."""
        if id(output) not in self._alive:
            return None, None
        read = {id(t) for s in self.steps for t in _tensors((s.args, s.kwargs))} | {id(output)}
        return next((pair for pair in self._starts if id(pair[0]) in read), (None, None))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [*_tensors((args, kwargs))]
        out = func(*args, **kwargs)
        wrote = tuple(_tensors(out))
        weights = [t for t in read if id(t) in self._weights]
        if weights and len(weights) == len(read):
            self._weights.update((id(t), t) for t in wrote)
        elif weights and wrote:
            self._restart(func, wrote)
        elif wrote and any(id(t) in self._alive for t in read):
            self.steps.append(_Step(func, args, kwargs, wrote))
            self._alive.update((id(t), t) for t in wrote)
        return out

    def _restart(self, func: Any, wrote: tuple[Tensor, ...]) -> None:
        self.steps.clear()
        self._starts = tuple((t, t.clone()) for t in wrote)  # a later step may write into it
        self._alive = {id(t): t for t in wrote}
        self.bound = RECURRENT.get(_name(func), torch.inf)


def _name(func: Any) -> str:
    return getattr(func, "__name__", "")


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


def _replaced(value: Any, known: Mapping[int, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return known.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(part, known) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_replaced(part, known) for part in value]
        named = isinstance(value, tuple) and type(value) is not tuple
        return type(value)(*parts) if named else type(value)(parts)
    return value

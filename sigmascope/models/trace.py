"""One run of a model, watched: layers by hooks, operations as Python spells them and as they run.

The invariant: a watcher changes nothing. Hooks pass copies on, and the modes call what they were
given. Where an operation of the user's refuses to be watched, the run is made again without modes:
calls and outputs can still be had, and what only a mode could see is None.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from sigmascope.core.guard import DrawnNumbers, Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg import dense
from sigmascope.models.layers import Call, Statisticians, called, is_matrix, recording
from sigmascope.models.samples import Batch, as_tensor, tensors
from sigmascope.models.state import still, uses_batch_statistics

# ------------------------------------------------------------------------------
# What is called for every operation, without loading the compiler for it.


COMPILER = "torch._dynamo"


class DispatchMode(TorchDispatchMode):
    """A dispatch mode that leaves torch's compiler unloaded until somebody compiles.

    Of every mode, torch has `__torch_dispatch__` wrapped so that the compiler passes it by, and the
    wrapper imports the compiler at the first operation: half of what a small profile takes, and
    100 MB. Where it was never imported there is nothing that would have to pass by.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guarded = cls.__dict__.get("__torch_dispatch__")
        bare = getattr(guarded, "__wrapped__", None)
        if guarded is None or bare is None:  # before torch 2.8 nothing is wrapped
            return

        def dispatched(mode: Any, *call: Any) -> object:
            return (guarded if COMPILER in sys.modules else bare)(mode, *call)

        setattr(cls, "__torch_dispatch__", dispatched)  # noqa: B010 (stubs know one signature)


# ------------------------------------------------------------------------------
# What a model still does to what its last weights write, as a function that can be run by itself.
#
# One run is watched as Python spells it. What a weight makes of data is a source, and everything
# that is made of sources without a weight remembers from which, and how. What the output remembers
# at the end are the operations behind the last weights: one layer's, or every step's of a loop,
# every branch's of a sum. The invariant: run again on what those weights wrote, they give the
# output. On anything else they give what the output would be if the weights were others, which
# tells what outputs are possible at all. A memory lives as long as a tensor that has it, so that a
# deep network's are few.


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

    @property
    def read(self) -> list["_Part"]:
        """What was read of others."""
        return [*_parts((self.args, dict(self.kwargs)))]


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the tensors that an operation gave."""

    of: _Made
    number: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Tail(Brief):
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
                args, kwargs = (
                    _mapped(given, lambda p: known[id(p.of)][p.number], kind=_Part)
                    for given in (made.args, dict(made.kwargs))
                )
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
    if not all(
        one.shape == ending.output.shape
        and (  # the former, as it mostly is, takes a tenth of the time
            torch.equal(one, ending.output)
            or torch.allclose(one, ending.output, rtol=1e-3, equal_nan=True)
        )
        for one in again
    ):
        raise Refusal(
            "The operations behind the last weight must give the output when they are run again, "
            "got another one. An operation there keeps a state, or draws random numbers."
        )
    return ending


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
        # what it was made of, each behind what it reads; sources first
        found: list[_Made] = []
        seen: set[int] = set()
        ahead = [(last.of, False)]
        while ahead:
            made, ready = ahead.pop()
            if ready:
                found.append(made)
            elif id(made) not in seen:
                seen.add(id(made))
                ahead.append((made, True))
                ahead += [(part.of, False) for part in reversed(made.read)]
        order = tuple(sorted(found, key=lambda m: m.value is None))
        # operations that do more than move numbers and close some part of the output
        closings: set[str] = set()
        closed: set[int] = set()
        left = [last.of]
        while left:
            made = left.pop()
            if id(made) in closed:
                continue
            closed.add(id(made))
            if made.value is not None or _word(made) not in MOVING:
                closings.add(_word(made))
            else:
                left += [part.of for part in made.read]
        if len(closings) != 1:
            return None
        for made in order:
            # let go of the copy of what a weight wrote, where nothing has written into that since
            now, held = made.origin(), made.value
            if now is not None and held is not None:
                dense = held.layout == torch.strided and not held.is_nested
                if dense and torch.equal(held, now):
                    made.value = now.detach()
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
            # the same with what is remembered of tensors in their place
            made = _Made(
                func, *(_mapped(part, lambda t: self._made.get(t, t)) for part in (args, kwargs))
            )
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


NONE: frozenset[str] = frozenset()
FIXED = "(a fixed matrix)"  # neither a parameter nor a buffer
PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "convolution"))
SUMS = frozenset(("add", "add_", "__add__", "__radd__", "__iadd__"))
ENDS = {  # where activations squash to
    **dict.fromkeys(("sigmoid", "hardsigmoid"), (0.0, 1.0)),
    **dict.fromkeys(("tanh", "hardtanh", "softsign"), (-1.0, 1.0)),
}


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of two tensors of one shape.

    Attributes:
        nodes: What computed either of them, for autograd.
        sizes: Their root mean squares, with the factor of the second.
        node: The sum itself, for autograd.
    """

    nodes: tuple[Any, Any]
    sizes: tuple[float, float]
    node: Any


class Operations(TorchFunctionMode):
    """Sums and squashing activations of a run, wherever they are called.

    Attributes:
        sums: In their order.
        squashed: What activations wrote, with their kind.
        softmaxes: How many there are.

    Args:
        sizes: Whether those of what is added up are wanted.
    """

    def __init__(self, *, sizes: bool = True) -> None:
        super().__init__()
        self._size = _size if sizes else lambda _: 0.0
        self.sums: list[Sum] = []
        self.squashed: list[tuple[str, Tensor]] = []
        self.softmaxes = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        a, b = args[:2] if name in SUMS and len(args) > 1 else (None, None)
        found = None
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape:
            with torch._C.DisableTorchFunction():  # before the first is overwritten in place
                sizes = self._size(a), abs(float(kwargs.get("alpha", 1))) * self._size(b)
                found = (a.grad_fn, b.grad_fn), sizes
        out = func(*args, **kwargs)
        if found is not None:
            self.sums.append(Sum(*found, out.grad_fn))
        self.softmaxes += name == "softmax"
        if name.rstrip("_") in ENDS and isinstance(out, Tensor):
            self.squashed.append((name.rstrip("_"), out))
        return out


def _size(t: Tensor) -> float:
    return (dense.square_sum(t) / t.numel()) ** 0.5 if t.numel() else 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """What one run of a model gave.

    Attributes:
        calls: Of layers and normalisers, in the order in which they end.
        frozen: Statistics of the batch normalisers that use those of the batch.
        output: The output tensor that is studied.
        rule: How it was chosen from what the model returns.
        operations: What was seen of operations; None where they refuse to be watched.
        tail: What follows the last weight; None as for operations, or where no weight was seen.
        seen: Calls of the run in which they were watched, which hold no copies.
        outside: Names of weights that meet what comes from the batch while no layer is called:
            parameters of two or more dimensions that anything is done with; buffers, and fixed
            matrices, only where they are multiplied with. None as for operations.
        unfed: Sites of calls that read nothing of the batch, learned queries say, or a first state.
            None of them where no call does, or it is not known.
        drew: Whether random numbers were drawn, though the model was in evaluation mode.
    """

    calls: tuple[Call, ...]
    frozen: Statisticians
    output: Tensor
    rule: str
    operations: Operations | None = None
    tail: Tail | None = None
    seen: tuple[Call, ...] = ()
    outside: tuple[str, ...] | None = None
    unfed: frozenset[str] = frozenset()
    drew: bool = False


def traced(
    model: nn.Module, batch: Batch, listened: Mapping[str, nn.Module], *, watched: bool = True
) -> Trace:
    """Run a model held still; twice where it changes in place what was recorded.

    Args:
        model: Left as it was found.
        batch: What it is run on.
        listened: What is recorded: layers and normalisers.
        watched: Whether operations are watched, and where weights are applied.

    Raises:
        Refusal: If the model raises anything, with what it was given.
    """
    for outside in (True, False) if watched else ():
        with suppress(Exception):  # a watcher's; the model's own comes again below
            trace = run_once(model, batch, listened, operations=True, outside=outside)
            break
    else:
        trace = run_once(model, batch, listened)
    if any(c.spoiled for c in trace.calls):
        again = run_once(model, batch, listened, copy=True)
        seen = {"operations": trace.operations, "tail": trace.tail, "outside": trace.outside}
        return replace(again, **seen, seen=trace.calls, unfed=trace.unfed)
    return trace


def run_once(
    model: nn.Module,
    batch: Batch,
    listened: Mapping[str, nn.Module],
    *,
    copy: bool = False,
    operations: bool = False,
    outside: bool = False,
) -> Trace:
    """One run; what watches it may refuse, and then says why.

    Args:
        model: Left as it was found.
        batch: What it is run on.
        listened: Layers and normalisers.
        copy: Whether to keep copies of what they read.
        operations: Whether to watch operations.
        outside: Whether to watch where weights are applied.
    """
    live = any(map(uses_batch_statistics, listened.values()))  # else a later run measures the same
    frozen, seen, used = Statisticians(), Operations(sizes=live), Outside(model, batch)
    ending = LastWeight(model)
    with (
        still(model),
        torch.no_grad(),
        recording(listened, copy=copy, rewrite=frozen.rewrite) as tape,
        used.inside(listened.values()) if outside else nullcontext(),
        used if outside else nullcontext(),
        seen if operations else nullcontext(),
        ending if operations else nullcontext(),
    ):
        drawn = DrawnNumbers()
        output, rule = as_tensor(called(model, batch))
        drew = bool(drawn)
    read = {storage_of(c.input) for c in tape.calls}  # the rest need not be held
    seen.squashed = [(kind, t) for kind, t in seen.squashed if storage_of(t) in read]
    return Trace(
        tuple(tape.calls),
        frozen,
        output.detach(),
        rule,
        seen if operations else None,
        ending.tail(output),
        tuple(tape.calls) if operations else (),
        tuple(used.found) if outside else None,
        used.unfed(tape.calls) if outside else NONE,
        drew,
    )


class Outside(DispatchMode):
    """Follows, by the memory that tensors lie in, what comes from the batch and from weights.

    Attributes:
        found: Names of the weights, once each.
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        super().__init__()
        self._depth = 0
        self.found: dict[str, None] = {}
        self._data = {storage_of(t) for t in tensors(batch)}
        self._fed = set(self._data)  # as these, but not what layers make of anything else
        self._reads: dict[nn.Module, list[bool]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._parameters = {name for name, _ in model.named_parameters()}
        for name, t in (*model.named_buffers(), *model.named_parameters()):
            if is_matrix(t):
                self._names[storage_of(t)] = frozenset((name,))

    @contextmanager
    def inside(self, modules: Iterable[nn.Module]) -> Iterator[None]:
        """Count how deep in calls of these modules the run is."""
        with ExitStack() as hooks:
            for module in dict.fromkeys(modules):
                before = module.register_forward_pre_hook(
                    self._enter, prepend=True, with_kwargs=True
                )
                hooks.callback(before.remove)
                hooks.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield

    def unfed(self, calls: Sequence[Call]) -> frozenset[str]:
        """Sites of the calls that read nothing of the batch; none if that is so of all.

        Args:
            calls: That were recorded meanwhile. Of a module that was called more often, nothing is
                known.
        """
        sites: dict[nn.Module, list[str]] = {}
        for call in calls:
            sites.setdefault(call.module, []).append(call.site)
        fed = {
            site: read
            for module, own in sites.items()
            if len(own) == len(self._reads.get(module, ()))
            for site, read in zip(own, self._reads[module], strict=True)
        }
        return frozenset(s for s, read in fed.items() if not read) if any(fed.values()) else NONE

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        # what it transforms is its first tensor: keys of the batch feed no queries that are learned
        first = next(tensors((args, kwargs)), None)
        fed = first is not None and storage_of(first) in self._fed
        self._reads.setdefault(module, []).append(fed)

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [(storage_of(t), t) for t in tensors((args, kwargs))]
        places = {place for place, _ in read}
        data = not self._data.isdisjoint(places)
        others = places - self._data
        names = NONE.union(*(self._names.get(place, NONE) for place in others))
        name = func.__name__.partition(".")[0]
        if data and self._depth == 0:
            product = name in PRODUCTS
            self.found |= dict.fromkeys(sorted(names if product else names & self._parameters))
            if product and not names and any(is_matrix(t) for p, t in read if p in others):
                self.found[FIXED] = None
        # whether an operation takes no numbers from what it reads, only its size and kind
        sized = name.startswith("new_") or name.endswith("_like")
        fed = not sized and not self._fed.isdisjoint(places)
        out = func(*args, **kwargs)
        for place in {storage_of(t) for t in tensors(out)}:
            fresh = place not in places
            self._fed.add(place) if fed else fresh and self._fed.discard(place)
            made = fresh and self._depth > 0 and bool(names)  # by a layer, and recorded there
            # what an operation wrote comes from what it read; a view also from what it looks at
            if fresh:  # memory of what is gone may be used again
                self._data.discard(place)
                self._names.pop(place, None)
            if data or made:
                self._data.add(place)
            elif names:
                self._names[place] = names | self._names.get(place, frozenset())
        return out


def storage_of(tensor: Tensor) -> int:
    """A number for the memory that a tensor lies in, the same for all views of it."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a kind of tensor that lies in several storages
        return -id(tensor)

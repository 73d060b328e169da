"""One run of a model, watched: layers by hooks, operations as Python spells them and as they run.

The invariant: a watcher changes nothing. Hooks pass copies on, and the modes call what they were
given. Where an operation of the user's refuses to be watched, the run is made again without modes:
calls and outputs can still be had, and what only a mode could see is None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.linalg import sums
from sigmascope.probes.execution.dispatch_modes import DispatchMode
from sigmascope.probes.execution.freeze import still, uses_batch_statistics
from sigmascope.probes.execution.hooks import Call, recording
from sigmascope.probes.execution.layers import Statisticians, is_matrix
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.execution.tails import LastWeight, Tail
from sigmascope.probes.samples.batches import Batch, as_tensor, tensors

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

    Args:
        sizes: Whether those of what is added up are wanted.
    """

    def __init__(self, *, sizes: bool = True) -> None:
        super().__init__()
        self._size = _size if sizes else lambda _: 0.0
        self.sums: list[Sum] = []
        self.squashed: list[tuple[str, Tensor]] = []

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
        if name.rstrip("_") in ENDS and isinstance(out, Tensor):
            self.squashed.append((name.rstrip("_"), out))
        return out


def _size(t: Tensor) -> float:
    return (sums.square_sum(t) / t.numel()) ** 0.5 if t.numel() else 0.0


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


def traced(model: nn.Module, batch: Batch, listened: Mapping[str, nn.Module]) -> Trace:
    """Run a model held still; twice where it changes in place what was recorded.

    Args:
        model: Left as it was found.
        batch: What it is run on.
        listened: What is recorded: layers and normalisers.

    Raises:
        Refusal: If the model raises anything, with what it was given.
    """
    trace = _watched(model, batch, listened)
    if any(c.spoiled for c in trace.calls):
        again = run_once(model, batch, listened, copy=True)
        watched = {"operations": trace.operations, "tail": trace.tail, "outside": trace.outside}
        return replace(again, **watched, seen=trace.calls, unfed=trace.unfed)
    return trace


def _watched(model: nn.Module, batch: Batch, listened: Mapping[str, nn.Module]) -> Trace:
    for outside in (True, False):
        with suppress(Exception):  # a watcher's; the model's own comes again below
            return run_once(model, batch, listened, operations=True, outside=outside)
    return run_once(model, batch, listened)


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
        output, rule = as_tensor(called(model, batch))
    read = {_place(c.input) for c in tape.calls}  # the rest need not be held
    seen.squashed = [(kind, t) for kind, t in seen.squashed if _place(t) in read]
    return Trace(
        tuple(tape.calls),
        frozen,
        output.detach(),
        rule,
        seen if operations else None,
        ending.tail(output),
        tuple(tape.calls) if operations else (),
        *(used.answers(tape.calls) if outside else (None, NONE)),
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
        self._data = {_place(t) for t in tensors(batch)}
        self._fed = set(self._data)  # as these, but not what layers make of anything else
        self._reads: dict[nn.Module, list[bool]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._parameters = {name for name, _ in model.named_parameters()}
        for name, t in (*model.named_buffers(), *model.named_parameters()):
            if is_matrix(t):
                self._names[_place(t)] = frozenset((name,))

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

    def answers(self, calls: Sequence[Call]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Weights that were applied outside of calls, and what `unfed` says."""
        return tuple(self.found), self.unfed(calls)

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
        fed = first is not None and _place(first) in self._fed
        self._reads.setdefault(module, []).append(fed)

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        places = [_place(t) for t in read]
        data = any(place in self._data for place in places)
        others = [t for t, p in zip(read, places, strict=True) if p not in self._data]
        names = frozenset[str]().union(*(self._names.get(_place(t), ()) for t in others))
        if data and self._depth == 0:
            self._note(func, others, names)
        fed = not _sizes_alone(func) and any(place in self._fed for place in places)
        out = func(*args, **kwargs)
        for place in {_place(t) for t in tensors(out)}:
            fresh = place not in places
            self._fed.add(place) if fed else fresh and self._fed.discard(place)
            made = fresh and self._depth > 0 and bool(names)  # by a layer, and recorded there
            self._keep(place, data or made, names, fresh=fresh)
        return out

    def _note(self, func: Callable[..., Any], others: list[Tensor], names: frozenset[str]) -> None:
        product = func.__name__.split(".")[0] in PRODUCTS
        self.found |= dict.fromkeys(sorted(names if product else names & self._parameters))
        if product and not names and any(is_matrix(t) for t in others):
            self.found[FIXED] = None

    def _keep(self, place: int, data: bool, names: frozenset[str], *, fresh: bool) -> None:
        """What an operation wrote comes from what it read; a view also from what it looks at."""
        if fresh:  # memory of what is gone may be used again
            self._data.discard(place)
            self._names.pop(place, None)
        if data:
            self._data.add(place)
        elif names:
            self._names[place] = names | self._names.get(place, frozenset())


def _sizes_alone(func: Callable[..., Any]) -> bool:
    """Whether an operation takes no numbers from what it reads, only its size and kind."""
    name = func.__name__.split(".")[0]
    return name.startswith("new_") or name.endswith("_like")


def _place(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a kind of tensor that lies in several storages
        return -id(tensor)

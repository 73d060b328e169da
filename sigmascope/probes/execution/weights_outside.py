"""Weights that a model applies where no layer is called.

`F.linear(x, self.weight)`, a product with a bare parameter or with a fixed matrix: what is read and
written there is not recorded, for there is no module to listen to. They are told by what the
dispatcher runs while no layer is being called.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.samples.batches import Batch, tensors

FIXED = "(a fixed matrix)"  # neither a parameter nor a buffer
PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "convolution"))


def uses_outside(model: nn.Module, batch: Batch, listened: Mapping[str, nn.Module]) -> list[str]:
    """Names of the weights that meet what comes from the batch while no layer is called.

    Parameters of two or more dimensions that anything is done with; buffers, and matrices that are
    neither, only where they are multiplied with.

    Args:
        model: Left as it was found.
        batch: What it is run on.
        listened: Layers and normalisers, whose own use of their weights is recorded elsewhere.

    Cost: a forward pass.
    """
    watch = _Watch(model, batch)
    with still(model), torch.no_grad(), _counted(listened.values(), watch), watch:
        called(model, batch)
    return [*dict.fromkeys(watch.found)]


def is_matrix(tensor: Tensor) -> bool:
    """Whether it is of two or more dimensions; a row with dimensions of size one is a vector."""
    return sum(size > 1 for size in tensor.shape) >= 2


@contextmanager
def _counted(modules: Iterable[nn.Module], watch: "_Watch") -> Iterator[None]:
    """Count how deep in calls of these modules the run is."""

    def enter(*_: Any) -> None:
        watch.depth += 1

    def leave(*_: Any) -> None:
        watch.depth -= 1

    with ExitStack() as hooks:
        for module in dict.fromkeys(modules):
            before = module.register_forward_pre_hook(enter, prepend=True)
            hooks.callback(before.remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        yield


class _Watch(TorchDispatchMode):
    """Follows, by the memory that tensors lie in, what comes from the batch and from weights."""

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        super().__init__()
        self.depth = 0
        self.found: list[str] = []
        self._data = {_place(t) for t in tensors(batch)}
        self._names: dict[int, frozenset[str]] = {}
        self._parameters = {name for name, _ in model.named_parameters()}
        for name, t in (*model.named_buffers(), *model.named_parameters()):
            if is_matrix(t):
                self._names[_place(t)] = frozenset((name,))

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        places = [_place(t) for t in read]
        data = any(place in self._data for place in places)
        still_weights = [(t, p) for t, p in zip(read, places, strict=True) if p not in self._data]
        names = frozenset[str]().union(*(self._names.get(p, ()) for _, p in still_weights))
        if data and self.depth == 0:
            self._note(func, [t for t, _ in still_weights], names)
        out = func(*args, **kwargs)
        for place in {_place(t) for t in tensors(out)}:
            fresh = place not in places
            made = fresh and self.depth > 0 and bool(names)  # by a layer, and recorded there
            self._keep(place, data or made, names, fresh=fresh)
        return out

    def _note(self, func: Callable[..., Any], others: list[Tensor], names: frozenset[str]) -> None:
        product = func.__name__.split(".")[0] in PRODUCTS
        self.found += sorted(names if product else names & self._parameters)
        if product and not names and any(is_matrix(t) for t in others):
            self.found.append(FIXED)

    def _keep(self, place: int, data: bool, names: frozenset[str], *, fresh: bool) -> None:
        """What an operation wrote comes from what it read; a view also from what it looks at."""
        if fresh:  # memory of what is gone may be used again
            self._data.discard(place)
            self._names.pop(place, None)
        if data:
            self._data.add(place)
        elif names:
            self._names[place] = names | self._names.get(place, frozenset())


def _place(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a kind of tensor that lies in several storages
        return -id(tensor)

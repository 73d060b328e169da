"""Hooks that do not outlive what they are for, and cannot stop what they hear.

Not in copies, files or compiled code; and whatever goes wrong in one is kept for the end of the
step, so that the pass it hears goes on.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from sigmascope.models.state import is_compiled

Heard = Callable[[Tensor, Any], None]
# of these there are no features that every sample has a number of
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
AGAIN: ContextVar[Collection[Any] | None] = ContextVar("again", default=None)


@runtime_checkable
class Listener(Protocol):
    """Whose hooks they are."""

    compiled: bool

    def clock(self) -> float:
        """In seconds."""
        ...

    def spent(self, seconds: float) -> None:
        """A hook took so long."""
        ...

    def failed(self, error: Exception) -> None:
        """A hook has failed."""
        ...


class Ear:
    """A forward hook that hears a module's training passes, and nothing else.

    It does nothing in a copy of the module (an average of weights), in what is saved of it, in a
    pass without gradients (validation), in one that a backward pass repeats (checkpointing of
    activations; but where the first was without gradients, the one repeated is heard), under a
    transform of functions and in a pass that is compiled.

    Args:
        module: Whose calls are heard.
        hear: Called with its first tensor argument and its output, unless that argument is sparse.
        listener: Told the seconds that it took, and what went wrong.
    """

    def __init__(self, module: nn.Module, hear: Heard, listener: Listener) -> None:
        self._module, self._hear, self._listener = module, hear, listener
        self._in_order = False  # heard outside of a backward pass

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """As `torch.nn.Module` calls it."""
        if module is not self._module:
            return
        if torch.compiler.is_compiling():
            self._listener.compiled = True  # as the compiled code will do
            return
        start = self._listener.clock()
        if not hears(repeated=not self._in_order, by=self._listener):
            return
        self._in_order |= not in_backward()
        try:
            tensor = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
            if tensor is not None and tensor.layout not in SPARSE:
                with torch.no_grad():
                    self._hear(tensor.detach(), output)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._listener.failed(error)
        self._listener.spent(self._listener.clock() - start)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent()

    def __reduce__(self) -> Any:
        return made_silent()


def silent() -> Callable[..., None]:
    """A hook that does nothing, of the standard library: files with it open anywhere."""
    return nullcontext().__exit__


def made_silent() -> Any:
    """The hook that does nothing, as files name it."""
    return getattr, (nullcontext(), "__exit__")


def listening(
    pairs: Iterable[tuple[nn.Module, Heard]], listener: Listener
) -> list[RemovableHandle]:
    """Attach an ear to each module.

    Returns:
        What to call `.remove()` of.
    """
    return [m.register_forward_hook(Ear(m, hear, listener), with_kwargs=True) for m, hear in pairs]


def removed(handles: list[RemovableHandle]) -> None:
    """Take hooks away again."""
    for handle in handles:
        handle.remove()
    handles.clear()


def inaudible(model: nn.Module) -> set[nn.Module]:
    """Modules that run compiled: a hook in them is compiled too, again at every look."""
    found: set[nn.Module] = set()
    for module in model.modules():
        if module not in found and is_compiled(module):
            found.update(module.modules())
    return found


@contextmanager
def heard_by(listeners: Collection[Any]) -> Iterator[None]:
    """A pass of no training, that these listeners hear and no others."""
    token = AGAIN.set(listeners)
    try:
        yield
    finally:
        AGAIN.reset(token)


def hears(*, repeated: bool = False, by: Any = None) -> bool:
    """Whether a pass is one of training, run as it is written and for the first time.

    Args:
        repeated: Whether one that a backward pass repeats is heard.
        by: Who asks; a pass that is made once more for some is heard by those alone.
    """
    again = AGAIN.get()
    if again is not None:
        return any(by is one for one in again)
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return False
    return not transformed() and (repeated or not in_backward())


def in_backward() -> bool:
    """Whether autograd runs, as where a checkpoint repeats its forward pass."""
    return torch._C._current_graph_task_id() != -1  # no public name; held by a test


def transformed() -> bool:
    """Whether `torch.func` transforms what runs, so that tensors stand for others."""
    functorch: Any = vars(torch._C)["_functorch"]  # no public name either
    return functorch.peek_interpreter_stack() is not None

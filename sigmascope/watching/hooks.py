"""Hooks that do not outlive what they are for: not in copies, files or compiled code."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from sigmascope.watching.processes import whole

Heard = Callable[[Tensor, Any], None]


class Ear:
    """A forward hook that hears a module's training passes, and nothing else.

    It does nothing in a copy of the module (an average of weights), in what is saved of it, in a
    pass without gradients (validation), in one that a backward pass repeats (checkpointing of
    activations) and in one that is compiled.

    Args:
        module: Whose calls are heard.
        hear: Called with its first tensor argument and its output.
        clock: Told the seconds that it took.
    """

    def __init__(self, module: nn.Module, hear: Heard, clock: Callable[[float], None]) -> None:
        self._module, self._hear, self._clock = module, hear, clock

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """As `torch.nn.Module` calls it."""
        if module is self._module and hears():
            start = time.perf_counter()
            tensor = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
            if tensor is not None:
                self._hear(whole(tensor).detach(), output)
            self._clock(time.perf_counter() - start)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent

    def __reduce__(self) -> Any:
        return made_silent, ()


def silent(*_: Any) -> None:
    """A hook that does nothing."""


def listening(
    pairs: Iterable[tuple[nn.Module, Heard]], clock: Callable[[float], None]
) -> list[RemovableHandle]:
    """Attach an ear to each module.

    Returns:
        What to call `.remove()` of.
    """
    return [m.register_forward_hook(Ear(m, hear, clock), with_kwargs=True) for m, hear in pairs]


def removed(handles: list[RemovableHandle]) -> None:
    """Take hooks away again."""
    for handle in handles:
        handle.remove()
    handles.clear()


def hears() -> bool:
    """Whether a pass is one of training, run as it is written and for the first time."""
    if torch.compiler.is_compiling():
        return False
    return torch.is_grad_enabled() and not in_backward()


def in_backward() -> bool:
    """Whether autograd runs, as where a checkpoint repeats its forward pass."""
    return torch._C._current_graph_task_id() != -1  # no public name; held by a test


def made_silent() -> Any:
    """The hook that does nothing, as files name it."""
    return silent

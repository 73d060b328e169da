"""Where tensors of this package's own are made: on the CPU, whatever device is the default."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _device as defaults

PACKAGE = str(Path(__file__).parents[1])
HANDS = 8  # frames between a mode that hears a call and the function that it hands it on to


@contextmanager
def on_cpu() -> Iterator[None]:
    """Make tensors of this package's own on the CPU, where another device is the default.

    Its code names a device wherever it means another one. A context, and a decorator of doors.
    """
    with nullcontext() if torch.get_default_device().type == "cpu" else _OwnOnCpu():
        yield


class _OwnOnCpu(TorchFunctionMode):
    """Answers for the default device where a function that makes a tensor is called from here."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        makes = func in defaults._device_constructors() and "device" not in named
        if makes and _asks(func).f_code.co_filename.startswith(PACKAGE):
            device = args[0].device if args and isinstance(args[0], Tensor) else "cpu"
            named = {**named, "device": device}
        return func(*args, **named)


def _asks(func: Callable[..., Any]) -> FrameType:
    """Who calls a function of torch, behind modes that hand the call on, as those that trace."""
    asks = frame = sys._getframe(2)
    for _ in range(HANDS):
        if frame.f_code.co_name == "__torch_function__" and func in frame.f_locals.values():
            asks = frame.f_back or frame
        if frame.f_back is None or not frame.f_code.co_filename.startswith(PACKAGE):
            break
        frame = frame.f_back
    return asks

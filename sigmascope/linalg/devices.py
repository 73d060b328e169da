"""Where tensors of this package's own are made: on the CPU, whatever device is the default."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _device as defaults

PACKAGE = str(Path(__file__).parents[1])


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
        own = sys._getframe(1).f_code.co_filename.startswith(PACKAGE)
        if own and func in defaults._device_constructors() and "device" not in named:
            device = args[0].device if args and isinstance(args[0], Tensor) else "cpu"
            named = {**named, "device": device}
        return func(*args, **named)

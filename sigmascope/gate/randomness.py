"""State of torch that belongs to the process: random states of every device, the default device."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"  # where the code of this package lies
HANDS = 8  # frames between a mode that hears a call and the function that it hands it on to


@contextmanager
def random_states(seed: int | None = None) -> Iterator[None]:
    """Leave torch's random states behind the block as they were before it, on every device.

    Args:
        seed: Of all of them inside of the block; they go on from where they are without one.
    """
    import torch  # this room is loaded before `--help` is shown, and does not wait for it

    kind, devices = _started()
    with torch.random.fork_rng(devices=devices, device_type=kind):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.get_device_module(kind).manual_seed_all(seed)
        yield


class DrawnNumbers:
    """True where torch, NumPy or Python drew random numbers since this was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def __bool__(self) -> bool:
        return self._before != self._now()

    @staticmethod
    def _now() -> list[Any]:
        import numpy as np
        import torch

        kind, devices = _started()
        module = torch.get_device_module(kind) if devices else None
        own = [torch.get_rng_state(), *(module.get_rng_state(d) for d in devices if module)]
        _, key, *rest = np.random.get_state()
        return [
            [t.numpy().tobytes() for t in own],
            np.asarray(key).tobytes(),
            rest,
            random.getstate(),
        ]


def _started() -> tuple[str, list[int]]:
    """The accelerator and its devices; none where nothing was drawn there yet."""
    import torch

    found = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    kind = "cuda" if found is None else found.type  # before torch 2.6 the only one that is known
    module = getattr(torch, kind)
    if getattr(module, "is_initialized", module.is_available)():
        return kind, list(range(module.device_count()))
    return kind, []


@contextmanager
def on_cpu() -> Iterator[None]:
    """Make tensors of this package's own on the CPU, where another device is the default.

    Its code names a device wherever it means another one. A context, and a decorator of doors.
    """
    import torch

    with nullcontext() if torch.get_default_device().type == "cpu" else _own_on_cpu()():
        yield


@cache
def _own_on_cpu() -> Any:
    """The mode that answers for the default device where a tensor is made from here."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._device import _device_constructors

    class OwnOnCpu(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = kwargs or {}
            makes = func in _device_constructors() and "device" not in named
            if makes and _asks(func).f_code.co_filename.startswith(PACKAGE):
                there = args and isinstance(args[0], torch.Tensor)
                named = {**named, "device": args[0].device if there else "cpu"}
            return func(*args, **named)

    return OwnOnCpu


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

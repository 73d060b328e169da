"""Settings of the whole process that a forward pass may change."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as hooks_of_all

Undo = Callable[[], None]
_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn
ATTRIBUTES = (
    *((_CUDNN, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32")),
    (_CUDA.matmul, "allow_tf32"),
    (_CUDA.matmul, "allow_fp16_reduced_precision_reduction"),
    (torch.backends.mkldnn, "enabled"),
)
PAIRS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    (_CUDA.flash_sdp_enabled, _CUDA.enable_flash_sdp),
    (_CUDA.mem_efficient_sdp_enabled, _CUDA.enable_mem_efficient_sdp),
    (_CUDA.math_sdp_enabled, _CUDA.enable_math_sdp),
    (_CUDA.cudnn_sdp_enabled, _CUDA.enable_cudnn_sdp),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    (lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
    (lambda: torch.get_autocast_dtype("cpu"), lambda d: torch.set_autocast_dtype("cpu", d)),
    (lambda: torch.get_autocast_dtype("cuda"), lambda d: torch.set_autocast_dtype("cuda", d)),
    (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda to: torch.use_deterministic_algorithms(to[0], warn_only=to[1]),
    ),
    (np.geterr, lambda to: np.seterr(**to)),
)
GLOBAL_HOOKS = tuple(
    v for k, v in vars(hooks_of_all).items() if k.startswith("_global_") and isinstance(v, dict)
)


def settings() -> list[Undo]:
    """How every setting is put back to what it is now."""
    return [
        *(_pair(get, put) for get, put in PAIRS),
        *(_attribute(place, name) for place, name in ATTRIBUTES),
        *(_hooks(found) for found in GLOBAL_HOOKS),
        _default_device(),
        _numpy(),
        _python(),
    ]


def _pair(get: Callable[[], Any], put: Callable[[Any], Any]) -> Undo:
    before = get()
    return lambda: None if get() == before else _call(put, before)


def _attribute(place: Any, name: str) -> Undo:
    before = getattr(place, name)
    return lambda: None if getattr(place, name) == before else setattr(place, name, before)


def _hooks(found: dict[Any, Any]) -> Undo:
    before = dict(found)
    return lambda: None if found.keys() == before.keys() else _refill(found, before)


def _refill(found: dict[Any, Any], before: dict[Any, Any]) -> None:
    found.clear()
    found.update(before)


def _default_device() -> Undo:
    # torch.get_default_device would not tell a default from a device that was set
    get = lambda: getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    before = get()
    to = None if before is None else before.device
    return lambda: None if get() is before else torch.set_default_device(to)


def _numpy() -> Undo:
    before = np.random.get_state()
    return lambda: np.random.set_state(before)


def _python() -> Undo:
    before = random.getstate()
    return lambda: random.setstate(before)


def _call(put: Callable[[Any], Any], value: Any) -> None:
    put(value)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the block is over, so that it ends no putting back half-way."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[-1])

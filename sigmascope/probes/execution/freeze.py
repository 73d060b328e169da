"""Settings of the whole process that a forward pass may change."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules import module as hooks_of_all
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.gate import random_states
from sigmascope.probes.execution.reachable_state import Reach
from sigmascope.probes.execution.restoring import as_found, every, uninterrupted

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


# what is held still belongs to all threads of the process: modes, hooks, random states, flags
ALONE = threading.RLock()


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a normaliser mixes the samples of a batch: in training mode, or without a memory."""
    with ALONE:  # not while another thread holds it still
        return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


@contextmanager
def apart() -> Iterator[None]:
    """Leave random states and settings of the process as they are; one thread at a time."""
    with ALONE, ExitStack() as undo:
        undo.callback(_give_back_settings, settings())
        undo.enter_context(random_states())
        yield


@contextmanager
def still(model: nn.Module, *, weights: bool = True) -> Iterator[None]:
    """Hold a model still: no dropout, no drift, no trace in any state that it can reach.

    Inside the block every module is in evaluation mode, except batch normalisers found in training
    mode, which go on using the statistics of the batch. Afterwards everything a forward pass can
    reach is as it was, bit for bit and also after an error or Ctrl-C: modules, their modes, hooks
    and attributes, what those hold (see `reachable_state`), parameters and buffers with what is in
    them (`tensor_state`) and their gradients, random states of torch, NumPy and Python, and
    settings of the process (`settings`). Measurements in several threads take turns here.

    Args:
        model: The model.
        weights: Whether parameters and gradients get their values back too; not where the block is
            there to change those of a copy.
    """
    with apart(), ExitStack() as undo:
        reach = Reach(model)
        undo.enter_context(as_found(reach, weights=weights))
        _quieten(reach.modules, model)
        yield


@contextmanager
def alive(model: nn.Module, *, fused: bool = False) -> Iterator[None]:
    """As `still`, but in the model's own modes: dropout draws, and is forgotten afterwards.

    Args:
        model: The model.
        fused: Whether attention may take a fused kernel. Those cannot be followed, and need no
            memory for the scores of all pairs.
    """
    modes = [(m, m.training) for m in model.modules()]
    attention = nullcontext() if fused else sdpa_kernel(SDPBackend.MATH)
    with still(model), attention, torch.enable_grad():
        for module, mode in modes:
            module.training = mode
        yield


def _quieten(modules: list[nn.Module], model: nn.Module) -> None:
    # the fused encoder layer never calls its submodules, so nothing could be observed
    torch.backends.mha.set_fastpath_enabled(False)
    for module in model.modules():
        if module.training and not isinstance(module, _BatchNorm):
            module.training = False
    for module in modules:
        if module._compiled_call_impl is not None:
            # hooks added after the first call of a compiled module never fire (torch 2.13)
            module._compiled_call_impl = None


def _give_back_settings(undos: Sequence[Undo]) -> None:
    with uninterrupted():
        every(undos)

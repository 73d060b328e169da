"""Holding a model still while it is measured, and putting everything back."""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

# what is held still belongs to all threads of the process: modes, hooks, random states, flags
ALONE = threading.RLock()


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a normaliser mixes the samples of a batch: in training mode, or without a memory."""
    with ALONE:  # not while another thread holds it still
        return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """Hold a model still: no dropout, no drift of buffers, no trace in the random state.

    Inside the block every module is in evaluation mode, except batch normalisers found in training
    mode, which go on using the statistics of the batch. Afterwards modes, buffers, compiled calls,
    random states (torch, NumPy, Python) and backend flags are as they were, also after an error.
    Measurements in several threads wait for one another here.
    """
    modules = list(model.modules())
    with ALONE, ExitStack() as undo:
        undo.callback(_restore_modes, [(m, m.training) for m in modules])
        undo.callback(_restore_buffers, _buffers(modules))
        compiled = {m: m._compiled_call_impl for m in modules if m._compiled_call_impl is not None}
        undo.callback(_restore_calls, compiled)
        undo.callback(np.random.set_state, np.random.get_state())
        undo.callback(random.setstate, random.getstate())
        undo.callback(
            torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled()
        )
        there = torch.cuda.is_initialized()  # if not, nothing is on such a device
        devices = {p.device for p in model.parameters() if p.is_cuda} if there else set()
        undo.enter_context(torch.random.fork_rng(devices=sorted(devices, key=str)))
        # the fused encoder layer never calls its submodules, so nothing could be observed
        torch.backends.mha.set_fastpath_enabled(False)
        for module in modules:
            if module.training and not isinstance(module, _BatchNorm):
                module.training = False
        for module in compiled:
            # hooks added after the first call of a compiled module never fire (torch 2.13)
            module._compiled_call_impl = None
        yield


def _restore_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, mode in modes:
        if module.training != mode:
            module.training = mode


def _restore_calls(calls: dict[nn.Module, Any]) -> None:
    for module, compiled in calls.items():
        module._compiled_call_impl = compiled


Buffers = list[tuple[nn.Module, dict[str, tuple[torch.Tensor | None, torch.Tensor | None]]]]


def _buffers(modules: list[nn.Module]) -> Buffers:
    return [
        (m, {k: (b, None if b is None else b.clone()) for k, b in m._buffers.items()})
        for m in modules
    ]


def _restore_buffers(saved: Buffers) -> None:
    for module, buffers in saved:
        for name in [k for k in module._buffers if k not in buffers]:
            del module._buffers[name]
        for name, (buffer, copy) in buffers.items():
            module._buffers[name] = buffer
            # fused kernels change buffers without counting a version, so the values are compared
            if buffer is not None and copy is not None and not torch.equal(buffer, copy):
                with torch.no_grad():
                    buffer.copy_(copy)

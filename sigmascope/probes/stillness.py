"""Holding a model still while it is measured, and putting everything back."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.probes.batches import RUNS
from sigmascope.probes.keepsakes import Keepsake, keepsakes, leave_alone
from sigmascope.probes.reaches import Reach
from sigmascope.probes.settings import Undo, settings, uninterrupted

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
        # where CUDA was not started, nothing is on such a device
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        undo.enter_context(torch.random.fork_rng(devices=list(devices)))
        yield


@contextmanager
def still(model: nn.Module, *, weights: bool = True) -> Iterator[None]:
    """Hold a model still: no dropout, no drift, no trace in any state that it can reach.

    Inside the block every module is in evaluation mode, except batch normalisers found in training
    mode, which go on using the statistics of the batch. Afterwards everything a forward pass can
    reach is as it was, bit for bit and also after an error or Ctrl-C: modules, their modes, hooks
    and attributes, what those hold (see `probes.reaches`), parameters and buffers with what is in
    them (`probes.keepsakes`) and their gradients, random states of torch, NumPy and Python, and
    settings of the process (`probes.settings`). Measurements in several threads take turns here.

    Args:
        model: The model.
        weights: Whether parameters and gradients get their values back too; not where the block is
            there to change those of a copy.
    """
    with apart(), ExitStack() as undo:
        reach = Reach(model)
        kept = _kept(reach, weights=weights)
        undo.callback(_give_back, reach, kept, RUNS.count)
        _quieten(reach.modules, model)
        yield


def _kept(reach: Reach, *, weights: bool) -> list[Keepsake]:
    own = [p for m in reach.modules for p in m.parameters(recurse=False)]
    steady = {id(t) for p in own for t in (p, p.grad if p.is_leaf else None)}
    fluid = frozenset(id(t) for t in reach.tensors if id(t) not in steady)
    return keepsakes([t for t in reach.tensors if weights or id(t) in fluid], fluid)


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
        _every(undos)


def _give_back(reach: Reach, kept: list[Keepsake], runs: int) -> None:
    alone: list[Keepsake] = []
    with uninterrupted():
        ran = RUNS.count > runs
        _every([reach.give_back, *(partial(_note, one, alone) for one in kept)])
        if ran:
            leave_alone(alone)


def _every(undos: Sequence[Undo]) -> None:
    """All of them, also if one fails; the first failure is raised at the end."""
    failed: list[Exception] = []
    for undo in undos:
        try:
            undo()
        except Exception as error:  # noqa: BLE001 (raised below, once all the rest is back)
            failed.append(error)
    if failed:
        raise failed[0]


def _note(one: Keepsake, alone: list[Keepsake]) -> None:
    if not one.give_back():
        alone.append(one)

"""Copies of models, the one way they are made."""

import copy
import io
import socket
import threading
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, GeneratorType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import ALONE
from sigmascope.probes.execution.reachable_state import ATOMS, contents

LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}
# a function that holds one of these works on the model itself, or on its owner's records
HELD = (nn.Module, Tensor, list, dict, set, RemovableHandle)
# what stands for something outside of the process, or runs: a copy goes on with the same one
SHARED = (io.IOBase, socket.socket, ModuleType, GeneratorType, threading.Thread)


def duplicate(model: nn.Module) -> nn.Module:
    """A copy of a model that shares no tensor with it.

    What Python cannot copy is seen to: locks are new ones, sources of random numbers go on from the
    same state, weights that a hook computes are copied as they are, open files and threads are
    shared; functions that hold modules of the model hold those of the copy.

    Raises:
        Refusal: If something else cannot be copied, with the name of what holds it.
    """
    with ALONE:  # not while another thread holds it still
        memo: dict[int, Any] = {}
        found = [*reached(model)]
        memo[id(memo)] = [one for _, one in found]  # alive, so that no id is used again
        functions = [one for _, one in found if isinstance(one, FunctionType)]
        for _, one in found:
            if (twin := _twin(one)) is not None:
                memo[id(one)] = twin
        try:
            _bind_again(functions, memo)
            return copy.deepcopy(model, memo)
        except Exception as error:  # a class may refuse to be copied in any way
            raise Refusal(_explained(found, memo, error)) from error


def reached(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Everything that a copy of a model would meet, each once, with the name of the place.

    Args:
        model: Left as it is.
    """
    left: list[tuple[str, Any]] = [("", model)]
    seen: set[int] = set()
    while left:
        name, one = left.pop()
        if type(one) in ATOMS or id(one) in seen:
            continue
        seen.add(id(one))
        yield name, one
        left += [(f"{name}.{key}" if name else key, part) for key, part in contents(one)]


def _twin(one: Any) -> Any:
    """What takes the place of something that cannot be copied; None where it can be."""
    if type(one) in LOCKS:
        return LOCKS[type(one)]()
    if isinstance(one, torch.Generator):
        return one.clone_state()
    if isinstance(one, SHARED):
        return one
    if isinstance(one, threading.local):
        fresh = type(one)()
        fresh.__dict__.update(one.__dict__)
        return fresh
    if isinstance(one, nn.Parameter) and one.layout != torch.strided:
        return nn.Parameter(one.detach().clone(), requires_grad=one.requires_grad)
    if isinstance(one, Tensor) and not one.is_leaf:
        return one.detach().clone()
    return None


def _bind_again(functions: list[FunctionType], memo: dict[int, Any]) -> None:
    """Functions that hold modules, weights or records in their closure, with cells of their own."""
    made: list[tuple[FunctionType, tuple[CellType, ...]]] = []
    for one in functions:
        held = [_content(cell) for cell in one.__closure__ or ()]
        ours = one.__module__ is not None and one.__module__.startswith("sigmascope.")
        if not ours and any(isinstance(v, HELD) for v in held):
            cells = tuple(CellType() for _ in held)
            new = FunctionType(one.__code__, one.__globals__, one.__name__, one.__defaults__, cells)
            new.__kwdefaults__ = one.__kwdefaults__
            new.__dict__.update(one.__dict__)
            memo[id(one)] = new
            made.append((one, cells))
    for one, cells in made:  # once all are known, for they may hold one another
        for old, cell in zip(one.__closure__ or (), cells, strict=True):
            value = _content(old)
            if value is not old:
                cell.cell_contents = copy.deepcopy(value, memo)


def _content(cell: CellType) -> Any:
    """What a cell holds; itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _explained(found: list[tuple[str, Any]], memo: Mapping[int, Any], error: Exception) -> str:
    """Which attribute cannot be copied: the deepest that fails by itself."""
    name, kind = "(the model)", "something"
    for where, one in found:
        if isinstance(one, nn.Module | Tensor) or id(one) in memo:
            continue
        try:
            copy.deepcopy(one, dict(memo))
        except Exception:  # noqa: BLE001 (the same failure, found by name)
            name, kind = where, type(one).__name__
    words = " ".join(str(error).split())[:200]
    return (
        f"The model must be one that can be copied, got `{name}` of {kind}, with which Python says "
        f"{type(error).__name__}: {words}. Take it out of the model, or give its class a "
        "`__deepcopy__`."
    )

"""What a forward pass can reach from a model and change, and how it is put back.

Found by walking: modules, what hangs on them (numbers, tensors, containers, plain objects, sources
of random numbers) and the attributes of their classes. What a function keeps in its closure, or a
file in its globals, is out of reach.
"""

import random
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ATOMS = frozenset((int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.Size))
# objects of these packages hold no numbers of a model's own, and may lead far away from it
FOREIGN = frozenset(
    (
        *("torch", "builtins", "types", "typing", "abc", "enum", "functools", "weakref"),
        *("threading", "_thread", "queue", "multiprocessing", "concurrent", "asyncio", "io"),
        *("_io", "logging", "socket", "ctypes", "mmap", "pathlib", "jaxtyping", "sigmascope"),
    )
)
CONTAINERS = frozenset((dict, OrderedDict, set))
HOOKS = frozenset(k for k, v in vars(nn.Module()).items() if "hooks" in k and v == {})
Undo = Callable[[], None]


class Reach:
    """Everything found from a module, with its contents as they are now.

    Attributes:
        tensors: Every tensor, each once.
        modules: Every module, each once, also those that plain containers hide.
    """

    def __init__(self, model: nn.Module) -> None:
        self.tensors: list[Tensor] = []
        self.modules: list[nn.Module] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._empty: list[Any] = []
        self.undo: list[Undo] = []
        self._seen: set[int] = set()
        self._left: list[Any] = [model]
        while self._left:
            one = self._left.pop()
            if id(one) not in self._seen:
                self._seen.add(id(one))
                self._visit(one)

    def give_back(self) -> None:
        """Put back contents, attributes and states; what tensors hold is kept elsewhere."""
        for found in self._empty:
            if found:
                found.clear()
        for found, content in self._dicts:
            _restore_dict(found, content)
        for undo in self.undo:
            undo()

    def _visit(self, one: Any) -> None:
        if isinstance(one, Tensor):
            self._tensor(one)
        elif isinstance(one, nn.Module):
            self._module(one)
        elif isinstance(one, dict):
            self._mapping(one)
        elif isinstance(one, tuple | frozenset):
            self._push(one)
        else:
            self._other(one)

    def _push(self, parts: Iterable[Any]) -> None:
        self._left += [part for part in parts if type(part) not in ATOMS]

    def _tensor(self, one: Tensor) -> None:
        self.tensors.append(one)
        own: Any = one.__dict__
        self._mapping(own) if own else self._empty.append(own)
        if one.is_leaf and one.grad is not None:
            self._left.append(one.grad)

    def _mapping(self, found: dict[Any, Any]) -> None:
        if not found:
            self._empty.append(found)
            return
        content = dict(found)
        self._dicts.append((found, content))
        self._left += [v for v in content.values() if type(v) not in ATOMS]

    def _module(self, module: nn.Module) -> None:
        self.modules.append(module)
        content = dict(module.__dict__)
        self._dicts.append((module.__dict__, content))
        for name, value in content.items():
            kind = type(value)
            if kind in CONTAINERS and not value:  # most are, and need no visit
                self._empty.append(value)
            elif name in HOOKS:  # put back, but not entered: what hooks record is their owner's
                self._dicts.append((value, {**value}))
            elif kind not in ATOMS:
                self._left.append(value)
        kind = type(module)
        if id(kind) not in self._seen:
            self._kind(kind)

    def _kind(self, kind: type) -> None:
        for base in kind.__mro__:
            if id(base) not in self._seen and base.__module__.partition(".")[0] not in FOREIGN:
                self._class(base)
            self._seen.add(id(base))

    def _class(self, kind: type) -> None:
        content = {k: v for k, v in vars(kind).items() if not k.startswith("__")}
        self.undo.append(lambda: _restore_class(kind, content))
        plain = (Tensor, list, dict, set, deque)
        self._push(v for v in content.values() if isinstance(v, plain))

    def _other(self, one: Any) -> None:
        if isinstance(one, list | set | deque | bytearray):
            content: Any = one.copy()
            self.undo.append(lambda: _restore_sequence(one, content))
            self._push(() if isinstance(one, bytearray) else content)
        elif (undo := _state_of(one)) is not None:
            self.undo.append(undo)
        elif not isinstance(one, type) and _own(type(one)):
            if isinstance(found := getattr(one, "__dict__", None), dict):
                self._left.append(found)
            slots = {k: getattr(one, k) for k in _slots(type(one)) if hasattr(one, k)}
            if slots:
                self.undo.append(lambda: _restore_slots(one, slots))
                self._push(slots.values())


def contents(one: Any) -> Iterator[tuple[str, Any]]:
    """What something holds, by name, as `copy.deepcopy` goes through it; functions too."""
    if isinstance(one, dict):
        yield from ((str(key), value) for key, value in one.items())
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from ((str(place), value) for place, value in enumerate(one))
    elif isinstance(one, nn.Module):
        inner = {k for k, v in vars(one).items() if k in ("_parameters", "_buffers", "_modules")}
        for key, value in vars(one).items():
            yield from contents(value) if key in inner else ((key, value),)
    elif isinstance(one, MethodType):
        yield from (("__self__", one.__self__), ("__func__", one.__func__))
    elif isinstance(one, partial):
        yield from (("func", one.func), ("args", one.args), ("keywords", one.keywords))
    elif isinstance(one, FunctionType):
        held = [c.cell_contents for c in one.__closure__ or () if not _empty(c)]
        yield from (("(closure)", v) for v in held if not isinstance(v, type | ModuleType))
    elif not isinstance(one, type | ModuleType | Tensor | np.ndarray | BuiltinFunctionType):
        yield from _attributes(one)


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    found = getattr(one, "__dict__", None)
    if isinstance(found, dict):
        yield from ((str(key), value) for key, value in found.items())
    yield from ((k, getattr(one, k)) for k in _slots(type(one)) if hasattr(one, k))


def _empty(cell: CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def _own(kind: type) -> bool:
    """Whether objects of a class may be a place where a model keeps numbers."""
    return kind.__module__.partition(".")[0] not in FOREIGN or issubclass(
        kind, torch.optim.Optimizer | threading.local
    )


def _slots(kind: type) -> tuple[str, ...]:
    slots = (s for base in kind.__mro__ for s in (getattr(base, "__slots__", None) or ()))
    return tuple(s for s in slots if isinstance(s, str) and s not in ("__dict__", "__weakref__"))


def _state_of(one: Any) -> Undo | None:
    """How the state of an array or a source of random numbers is put back; None of all else."""
    if isinstance(one, np.ndarray):
        values = one.copy()
        return lambda: None if one.tobytes() == values.tobytes() else np.copyto(one, values)
    if isinstance(one, torch.Generator):
        state = one.get_state()
        return lambda: None if torch.equal(one.get_state(), state) else _set(one.set_state, state)
    if isinstance(one, np.random.Generator):
        bits, inner = one.bit_generator, one.bit_generator.state
        return lambda: setattr(bits, "state", inner)
    if isinstance(one, random.Random):
        return partial(one.setstate, one.getstate())
    if isinstance(one, np.random.RandomState):
        return partial(one.set_state, one.get_state())
    return None


def _set(by: Callable[[Tensor], Any], state: Tensor) -> None:
    by(state)


def _same(found: Mapping[Any, Any], content: Mapping[Any, Any]) -> bool:
    """The same keys, in the same order, with the same objects."""
    return (
        len(found) == len(content)
        and all(map(is_, found.values(), content.values()))
        and all(map(is_, found, content))
    )


def _restore_dict(found: dict[Any, Any], content: dict[Any, Any]) -> None:
    if not _same(found, content):
        found.clear()
        found.update(content)


def _restore_sequence(found: Any, content: Any) -> None:
    if len(found) == len(content) and all(map(is_, found, content)):
        return
    found.clear()
    found.update(content) if isinstance(found, set) else found.extend(content)


def _restore_slots(one: Any, slots: Mapping[str, Any]) -> None:
    for name, value in slots.items():
        if getattr(one, name, None) is not value:
            object.__setattr__(one, name, value)


def _restore_class(kind: type, content: Mapping[str, Any]) -> None:
    now = vars(kind)
    for name in [k for k in now if k not in content and not k.startswith("__")]:
        delattr(kind, name)
    for name, value in content.items():
        if now.get(name) is not value:
            setattr(kind, name, value)

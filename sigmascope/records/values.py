"""Records that hold tensors and mappings: compared by value, and sent to another process."""

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["ByValue"]


class ByValue:
    """A frozen data class that can be compared, hashed, pickled and copied, whatever it holds.

    What a data class writes of these fails at tensors, whose comparison is a tensor, and at
    mappings that are read only, which `pickle` does not take. One with fields of such kinds is
    declared with `eq=False`, so that the comparison here is not replaced. Tensors are the same if
    type, shape and numbers are. What has no value of its own, as a model, is the same as itself.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return _values(self) == _values(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), _values(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        held = _held(self)
        sealed = {n: dict(v) for n, v in held.items() if isinstance(v, MappingProxyType)}
        return _rebuilt, (type(self), held | sealed, tuple(sealed))


def _rebuilt(kind: type, held: dict[str, Any], sealed: tuple[str, ...]) -> Any:
    made = object.__new__(kind)
    for name, value in held.items():
        object.__setattr__(made, name, MappingProxyType(value) if name in sealed else value)
    return made


def _held(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


def _values(record: Any) -> tuple[Hashable, ...]:
    return tuple(_value(getattr(record, f.name)) for f in fields(record) if f.compare)


def _value(held: Any) -> Hashable:
    """What stands for a field where records are compared."""
    if isinstance(held, Tensor | np.ndarray):
        return held.dtype, held.shape, tuple(held.reshape(-1).tolist())
    if isinstance(held, Mapping):
        return frozenset((key, _value(each)) for key, each in held.items())
    if is_dataclass(held) and type(held).__hash__ is None:  # one that grows while it is filled
        return type(held), _values(held)
    return tuple(map(_value, held)) if isinstance(held, tuple | list) else held

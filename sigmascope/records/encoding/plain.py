"""Records as strict JSON and back."""

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor

from sigmascope.records.encoding.columns import columns, hinted, is_array, is_record, parts


def encoded(value: Any) -> Any:
    """Anything made of records as strict JSON; infinities are words that `float` reads back.

    Example:
        >>> from sigmascope.records import Estimate
        >>> encoded(Estimate(2.0, 1.0, math.inf, "free"))
        {'value': 2.0, 'low': 1.0, 'high': 'Infinity', 'how': 'free', 'risk': 0.0}
    """
    if isinstance(value, float):
        return strict(value)
    if isinstance(value, str | int | NoneType):
        return value.value if isinstance(value, StrEnum) else value
    if is_dataclass(value):
        return {name: write(of(value)) for name, of, write in _writers(type(value))}
    if isinstance(value, Mapping):
        return {key: encoded(cell) for key, cell in value.items()}
    return [encoded(cell) for cell in (value.tolist() if isinstance(value, Tensor) else value)]


def built(kind: type, cells: Mapping[str, Any]) -> Any:
    """The inverse of `encoded`: a record from its columns; tensors may be there as they are.

    Args:
        kind: The class of the record.
        cells: Its columns by name.

    Raises:
        TypeError: If a value is of another type than is written.
        ValueError: If a number cannot be read, or is none.
        KeyError: If a column is missing.
    """
    return kind(*[read(cells) for read in _readers(kind)])


def strict(number: float) -> float | str:
    """`number` as strict JSON allows it: infinities and nan become words that `float` reads."""
    if math.isfinite(number):
        return float(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


@cache
def _writers(kind: type) -> tuple[tuple[str, Callable[[Any], Any], Callable[[Any], Any]], ...]:
    """For each column of a class its name, what takes it from a record, and what encodes it."""
    return tuple((c.name, c.of, _writer(c.hint)) for c in columns(kind))


def _writer(hint: Any) -> Callable[[Any], Any]:
    if hint is float:
        return strict
    return _as_it_is if hint in (str, int) or get_origin(hint) is Literal else encoded


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _readers(kind: type) -> tuple[Callable[[Mapping[str, Any]], Any], ...]:
    """For each field of a class what takes it from columns."""
    return tuple(_reader(f, hint) for f, hint in hinted(kind))


def _reader(field: Field, hint: Any) -> Callable[[Mapping[str, Any]], Any]:
    inline, name = parts(field), field.name
    if inline is None:
        decode = _decoder(hint)
        return lambda cells: decode(cells[name])
    if is_record(hint):
        return lambda cells: built(hint, cells)
    return lambda cells: tuple(cells[name] for name in inline)


def _decoder(hint: Any) -> Callable[[Any], Any]:
    """The inverse of `encoded` for values of one type."""
    if hint is float:
        return lambda value: float(_of((str, int, float), value))
    if get_origin(hint) is UnionType:  # of something and None
        some = _decoder(get_args(hint)[0])
        return lambda value: None if value is None else some(value)
    if get_origin(hint) is tuple:
        each = _decoder(get_args(hint)[0])
        return lambda values: tuple(map(each, _of(list, values)))
    if is_record(hint):
        return lambda value: built(hint, _of(Mapping, value))
    if is_array(hint):
        return _array
    if hint in (bool, int):
        return lambda value: _of(hint, value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    return lambda value: _of(str, value)


def _array(value: Any) -> Tensor | None:
    if isinstance(value, Tensor | None):
        return value
    return torch.tensor([float(each) for each in _of(list, value)], dtype=torch.float64)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{kind} was expected, got {type(value).__name__}")
    return value

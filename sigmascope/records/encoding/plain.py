"""Records as strict JSON and back."""

import math
from collections.abc import Mapping
from dataclasses import Field, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from torch import Tensor

from sigmascope.records.encoding.columns import flat, hinted, is_array, is_record, parts


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
        return {name: encoded(cell) for name, cell in flat(value).items()}
    if isinstance(value, Mapping):
        return {key: encoded(cell) for key, cell in value.items()}
    return [encoded(cell) for cell in (value.tolist() if isinstance(value, Tensor) else value)]


def built(kind: type, cells: Mapping[str, Any]) -> Any:
    """A record from its columns, each as `encoded` writes it, but tensors as they are.

    Args:
        kind: The class of the record.
        cells: Its columns by name.

    Raises:
        TypeError: If a value is of another type than is written.
        ValueError: If a number cannot be read, or is none.
        KeyError: If a column is missing.
    """
    return kind(**{f.name: _field(f, hint, cells) for f, hint in hinted(kind)})


def strict(number: float) -> float | str:
    """`number` as strict JSON allows it: infinities and nan become words that `float` reads."""
    if math.isfinite(number):
        return float(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _field(field: Field, hint: Any, cells: Mapping[str, Any]) -> Any:
    inline = parts(field)
    if inline is None:
        return _decoded(hint, cells[field.name])
    return built(hint, cells) if is_record(hint) else tuple(cells[name] for name in inline)


def _decoded(hint: Any, value: Any) -> Any:
    if hint is float:
        return float(_of(str | int | float, value))
    if get_origin(hint) is UnionType:  # of something and None
        return None if value is None else _decoded(get_args(hint)[0], value)
    if get_origin(hint) is tuple:
        return tuple(_decoded(get_args(hint)[0], each) for each in _of(list, value))
    if is_record(hint):
        return built(hint, _of(Mapping, value))
    if is_array(hint):
        return value
    if hint in (bool, int):
        return _of(hint, value)
    text = _of(str, value)
    return hint(text) if isinstance(hint, type) and issubclass(hint, StrEnum) else text


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", kind)
        raise TypeError(f"{wanted} was expected, got {type(value).__name__}")
    return value

"""Records as plain values and back, derived from their fields: a new field is one line."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeGuard, get_args, get_origin, get_type_hints

import torch
from jaxtyping import AbstractArray
from torch import Tensor

__all__ = [
    "FlatField",
    "built",
    "columns",
    "encoded",
    "is_array",
    "is_record",
    "object_of",
    "schema_of",
    "strict",
    "wide",
]

# ------------------------------------------------------------------------------
# What a record holds, as columns.
#
# A field of a record stands under its own name. One that is declared `inline` stands in its parts,
# side by side with the fields of its owner: the number of a reading as `value`, `low`, `high`,
# `how` and `risk`. JSON, its schema, the cells of run files and data frames all follow from
# `columns`.


@dataclass(frozen=True, slots=True)
class FlatField:
    """One plain value of a record.

    Attributes:
        name: Under which it stands.
        hint: Its type.
        owner: The class that declares it, whose docstring says what it is.
        path: The attributes that lead to it.
        of: Takes it from a record.
    """

    name: str
    hint: Any
    owner: type
    path: str
    of: Callable[[Any], Any]


@cache
def columns(kind: type) -> tuple[FlatField, ...]:
    """What the records of a class hold, in the order in which it is declared."""
    found: list[FlatField] = []
    for field, hint in hinted(kind):
        inline, name = parts(field), field.name
        if inline is None:
            found.append(_column(name, hint, kind, path=name))
        elif is_record(hint):
            inner = columns(hint)
            found += [_column(c.name, c.hint, c.owner, path=f"{name}.{c.path}") for c in inner]
        else:
            each = enumerate(zip(inline, get_args(hint), strict=True))
            found += [_column(part, of, kind, path=f"{name}.{i}") for i, (part, of) in each]
    return tuple(found)


@cache
def wide(kind: type) -> tuple[FlatField, ...]:
    """The same, with the numbers that stand under a name of their own in their parts as well.

    The side `measured` of a check is `measured_value`, `measured_low` and so on: all of them None
    where there is no such number.
    """
    found: list[FlatField] = []
    for column in columns(kind):
        kinds = get_args(column.hint) or (column.hint,)
        known = [kind for kind in kinds if kind is not NoneType]
        inner = known[0] if len(known) == 1 and is_record(known[0]) else None
        if inner is None or get_origin(column.hint) not in (None, UnionType):
            found.append(column)
            continue
        for part in wide(inner):
            of = lambda record, column=column, part=part: (
                None if (value := column.of(record)) is None else part.of(value)
            )
            name, path = f"{column.name}_{part.name}", f"{column.path}.{part.path}"
            found.append(FlatField(name, part.hint, part.owner, path, of))
    return tuple(found)


@cache
def hinted(kind: type) -> tuple[tuple[Field, Any], ...]:
    """The fields of a class, each with its type."""
    hints = get_type_hints(kind)
    return tuple((f, hints[f.name]) for f in fields(kind))


def parts(field: Field) -> Any:
    """None for a field that stands under its own name; else what is declared of its parts."""
    return field.metadata.get("inline")


def is_record(hint: Any) -> TypeGuard[type]:
    """Whether values of this type are records."""
    return isinstance(hint, type) and is_dataclass(hint)


def is_array(hint: Any) -> bool:
    """Whether values of this type are tensors."""
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _column(name: str, hint: Any, owner: type, *, path: str) -> FlatField:
    *inside, last = path.split(".")
    if last.isdecimal():  # a part of a tuple
        whole, i = attrgetter(".".join(inside)), int(last)
        return FlatField(name, hint, owner, path, lambda record: whole(record)[i])
    of = attrgetter(path)
    exact = (lambda record: float(of(record))) if hint is float else of
    return FlatField(name, hint, owner, path, exact)


# ------------------------------------------------------------------------------
# Records as strict JSON and back.


def encoded(value: Any) -> Any:
    """Anything made of records as strict JSON; infinities are words that `float` reads back.

    Example:
        >>> from sigmascope.core.records import Estimate
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
    found = []
    for c in columns(kind):
        as_it_is = c.hint in (str, int) or get_origin(c.hint) is Literal
        write = strict if c.hint is float else (lambda value: value) if as_it_is else encoded
        found.append((c.name, c.of, write))
    return tuple(found)


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


# ------------------------------------------------------------------------------
# The JSON schema of records, from their types; what a field means, from the docstring.


_NUMBER = {"$ref": "#/$defs/number"}
_KINDS = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},  # all of them count something
    float: _NUMBER,
}


def object_of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


def schema_of(hint: Any, names: Mapping[type, str]) -> dict[str, Any]:
    """The schema of what `encoded` makes of a value of some type.

    Args:
        hint: The type: a class of records, or a type of one of their fields.
        names: Where other classes of records are defined, by `$defs`.
    """
    if is_record(hint):
        properties = {}
        for c in columns(hint):
            words = _attributes(c.owner).get(c.name)  # the field's line of the class's docstring
            said = {} if words is None else {"description": words}
            properties[c.name] = _part(c.hint, names) | said
        return object_of(properties)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [word.value for word in hint]}
    if is_array(hint):
        return {"type": "array", "items": _NUMBER}
    args = get_args(hint)
    if get_origin(hint) is Literal:
        return {"enum": list(args)}
    if get_origin(hint) is UnionType:
        return {"anyOf": [_part(args[0], names), {"type": "null"}]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _part(args[0], names)}
    if get_origin(hint) is Mapping:
        return {"type": "object", "additionalProperties": _part(args[1], names)}
    return _KINDS[hint]


def _part(hint: Any, names: Mapping[type, str]) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{names[hint]}"} if hint in names else schema_of(hint, names)


@cache
def _attributes(kind: type) -> dict[str, str]:
    section = re.search(r"^Attributes:\n((?:    .*\n?)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    entries = re.findall(
        r"^    (\w+): (.*(?:\n     .*)*)", section[1] if section else "", re.MULTILINE
    )
    return {name: " ".join(words.split()) for name, words in entries}

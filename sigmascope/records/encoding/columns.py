"""What a record holds, as columns.

A field of a record stands under its own name. One that is declared `inline` stands in its parts,
side by side with the fields of its owner: the number of a reading as `value`, `low`, `high`, `how`
and `risk`. JSON, its schema, the cells of run files and data frames all follow from `columns`.
"""

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, TypeGuard, get_args, get_origin, get_type_hints

from jaxtyping import AbstractArray


@dataclass(frozen=True, slots=True)
class Column:
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
def columns(kind: type) -> tuple[Column, ...]:
    """What the records of a class hold, in the order in which it is declared."""
    return tuple(c for f, hint in hinted(kind) for c in _columns(kind, f, hint))


@cache
def wide(kind: type) -> tuple[Column, ...]:
    """The same, with the numbers that stand under a name of their own in their parts as well.

    The side `measured` of a check is `measured_value`, `measured_low` and so on: all of them None
    where there is no such number.
    """
    return tuple(part for c in columns(kind) for part in _widened(c))


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


def _widened(column: Column) -> Iterator[Column]:
    inner = next((h for h in (column.hint, *get_args(column.hint)[:-1]) if is_record(h)), None)
    if inner is None or get_origin(column.hint) is tuple:
        yield column
        return
    for part in wide(inner):
        of = lambda record, part=part: (
            None if (value := column.of(record)) is None else part.of(value)
        )
        path = f"{column.path}.{part.path}"
        yield Column(f"{column.name}_{part.name}", part.hint, part.owner, path, of)


def _columns(kind: type, field: Field, hint: Any) -> Iterator[Column]:
    inline, name = parts(field), field.name
    if inline is None:
        yield _column(name, hint, kind, path=name)
    elif is_record(hint):
        for c in columns(hint):
            yield _column(c.name, c.hint, c.owner, path=f"{name}.{c.path}")
    else:
        for i, (part, of_part) in enumerate(zip(inline, get_args(hint), strict=True)):
            yield _column(part, of_part, kind, path=f"{name}.{i}")


def _column(name: str, hint: Any, owner: type, *, path: str) -> Column:
    *inside, last = path.split(".")
    if last.isdecimal():  # a part of a tuple
        whole, i = attrgetter(".".join(inside)), int(last)
        return Column(name, hint, owner, path, lambda record: whole(record)[i])
    of = attrgetter(path)
    exact = (lambda record: float(of(record))) if hint is float else of
    return Column(name, hint, owner, path, exact)

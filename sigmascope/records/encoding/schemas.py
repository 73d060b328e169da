"""The JSON schema of records, from their types; what a field means, from the docstring."""

import inspect
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from sigmascope.records.encoding.columns import Column, columns, is_array, is_record

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
        return object_of({c.name: _said(c, names) for c in columns(hint)})
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


def _said(column: Column, names: Mapping[type, str]) -> dict[str, Any]:
    """The schema of a field, with its line of the class's docstring."""
    words = _attributes(column.owner).get(column.name)
    return _part(column.hint, names) | ({} if words is None else {"description": words})


@cache
def _attributes(kind: type) -> dict[str, str]:
    section = re.search(r"^Attributes:\n((?:    .*\n?)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    entries = re.findall(
        r"^    (\w+): (.*(?:\n     .*)*)", section[1] if section else "", re.MULTILINE
    )
    return {name: " ".join(words.split()) for name, words in entries}

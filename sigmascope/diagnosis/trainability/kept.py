"""Fitted models as JSON files that a person can read."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from sigmascope.gate import Mark, write_text

T = TypeVar("T", bound="Kept")


class Kept:
    """A frozen dataclass of numbers, words and nested tuples of them; the first two are tuples."""

    __slots__ = ()

    def save(self, file: Path) -> None:
        """Write it as JSON, a line for each attribute."""
        state = asdict(self)  # type: ignore[call-overload] (of dataclasses, as the class says)
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in state.items()]
        write_text(file, "{\n" + ",\n".join(lines) + "\n}\n", mark=_mark(type(self)))

    @classmethod
    def read(cls: type[T], file: Path) -> T:
        """Read what `save` wrote."""
        return cls(**_tuples(json.loads(file.read_text(encoding="utf-8"))))


def _mark(kind: type) -> Mark:
    """By which a file is known that a model of this kind may write again: its first two lines."""
    first, second = (f.name for f in fields(kind)[:2])  # type: ignore[arg-type] (as above)
    return Mark(rf'\{{\n "{first}": \[.*\n "{second}": \['.encode())


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value

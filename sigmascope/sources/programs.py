"""The door to whole programs: what a function of the user's returns."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from sigmascope.core.guard import Refusal, listed, random_states
from sigmascope.sources.callables import (
    call,
    candidates,
    is_callable_spec,
    lent,
    named,
    require_program,
)
from sigmascope.sources.files import KINDS


def open_program(
    spec: str, *, called: bool = True, generator: torch.Generator | None = None
) -> Any:
    """What `file.py:program` or `package.module:program` is, or returns when it is called.

    Args:
        spec: One of the two.
        called: Whether a function is called; else it is given back.
        generator: Source of random weights and data; torch's global one when there is none. Its
            state is as before afterwards.

    Raises:
        Refusal: If the spec leads nowhere, or the function raises.
    """
    if not is_callable_spec(spec):
        file = Path(spec)
        own = candidates(file) if file.suffix == ".py" else []
        require_program(spec)
        has = f" `{spec}` has {listed(own)}." if own else ""
        if file.suffix in KINDS:
            has = f" Weights alone are measured by `sigmascope scan {spec}`."
        raise Refusal(
            f"A program is named `file.py:function` or `package.module:function`, got `{spec}`."
            f"{has}"
        )
    with lent(generator), named(spec) as found:
        return call(found, spec) if called and callable(found) and not _is_made(found) else found


def source_of(spec: str) -> tuple[Path, str] | None:
    """The file and the name in it that a spec leads to; None where it is no file of Python.

    Args:
        spec: As for `open_program`, which it was opened by.
    """
    place, _, name = spec.rpartition(":")
    path = Path(place).expanduser()
    if path.suffix != ".py":
        with random_states(), named(spec):
            path = Path(getattr(sys.modules.get(place), "__file__", None) or "")
    return (path, name) if path.suffix == ".py" and path.is_file() else None


def open_changed(spec: str, text: str, *, generator: torch.Generator | None = None) -> Any:
    """What a program would be if its file read otherwise, which is left as it is.

    Args:
        spec: As for `open_program`.
        text: In the place of what the file holds.
        generator: As for `open_program`.

    Raises:
        Refusal: If running the text raises.
    """
    found = source_of(spec)
    if found is None:
        raise Refusal(f"`{spec}` must lie in a file of Python to be changed, got none.")
    path, name = found
    file = str(path.resolve())
    code = compile(text, file, "exec", dont_inherit=True)
    with random_states(), named(spec):  # so that what lies beside it is found
        own = (m for m in [*sys.modules.values()] if getattr(m, "__file__", None) == file)
        module = ModuleType(getattr(next(own, None), "__name__", path.stem))
        module.__file__ = file
        with lent(generator):
            call(lambda: exec(code, vars(module)), spec)
            made = getattr(module, name, None)
            return call(made, spec) if callable(made) and not _is_made(made) else made


def _is_made(found: Any) -> bool:
    """Whether it is a module, which can be called, too, and is not meant to be."""
    return hasattr(found, "parameters") and not isinstance(found, type)

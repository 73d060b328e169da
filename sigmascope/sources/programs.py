"""The door to whole programs: what a function of the user's returns."""

from pathlib import Path
from typing import Any

import torch

from sigmascope.gate import Refusal
from sigmascope.sources.callables import call, candidates, is_callable_spec, named
from sigmascope.sources.refusals import listed
from sigmascope.sources.seeds import lent


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
        has = f" `{spec}` has {listed(own)}." if own else ""
        raise Refusal(
            f"A program is named `file.py:function` or `package.module:function`, got `{spec}`."
            f"{has}"
        )
    with lent(generator), named(spec) as found:
        return call(found, spec) if called and callable(found) and not _is_made(found) else found


def _is_made(found: Any) -> bool:
    """Whether it is a module, which can be called, too, and is not meant to be."""
    return hasattr(found, "parameters") and not isinstance(found, type)

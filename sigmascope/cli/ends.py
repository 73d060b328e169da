"""How a command ends: what it prints, what it writes as JSON, its exit code."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sigmascope import gate
from sigmascope.cli.outputs import FOUND, HEALTHY, show, terminal, write


def finish(
    result: Any,
    *beside: Any,
    json: str | None,
    failed: bool = False,
    shown: Any = None,
    printed: Mapping[str, Any] | None = None,
    **more: Any,
) -> int:
    """Print a result and write it as JSON, or only the latter where that goes to the output.

    Args:
        result: From the library.
        beside: What it is shown with; see `report.text` and `report.json_form`.
        json: As the user gave it.
        failed: Whether something was found that should stop a script.
        shown: What to print in its place.
        printed: What else the text takes, as `whole`.
        more: What both of them take.

    Returns:
        The exit code.
    """
    from sigmascope import report

    if json != "-":
        text = report.text(shown or result, *beside, **more, **(printed or {}), **terminal())
        show(text)
    if json is not None:
        write(json, report.json_form(result, *beside, **more))
    return FOUND if failed else HEALTHY


@contextmanager
def refusing(kind: type[Exception] = ValueError) -> Iterator[None]:
    """What the library says of numbers or packages that the user chose, as a refusal."""
    try:
        yield
    except kind as error:
        raise gate.Refusal(str(error)) from error

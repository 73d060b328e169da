"""Results as strict JSON. What is not said here follows from the fields of the records.

Numbers are written in full. JSON has no infinities: they are the strings `"Infinity"` and
`"-Infinity"`, which `float` in Python and `Number` in JavaScript read back; an end of an interval
is infinite where nothing is known on that side.
"""

import re
from contextlib import suppress
from typing import Any

from sigmascope.records.encoding import encoded
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.registry import by_kind, is_record_of_ours, refused


def json_form(result: Any, *beside: Any, **more: Any) -> dict[str, Any]:
    """A result as strict JSON, as `--json` of its command writes it.

    Args:
        result: A profile, which is then valid against `diagnosis.presentation.SCHEMA`, or another
            result of this library; or several of one kind.
        beside: What it is shown with, as the findings of a profile or a comparison.
        more: The same by name.

    Raises:
        TypeError: If it is no result of this library.

    Example:
        >>> from sigmascope.records import Profile
        >>> json_form(Profile(readings=()), ())["schema"]
        'sigmascope/profile/2'
    """
    return form(result, *beside, **more)


@by_kind
def form(result: Any, *beside: Any, **more: Any) -> dict[str, Any]:
    """What `json_form` gives, as the product that a result belongs to has registered it."""
    if is_record_of_ours(result):
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(result).__name__).lower()
        with suppress(TypeError):  # what holds a model is none of plain values
            return {"schema": f"sigmascope/{name}/1", **encoded(result)}
    raise refused(result)


def some(result: Any, *names: str) -> dict[str, Any]:
    """These fields of a result."""
    return {name: encoded(getattr(result, name)) for name in names}


@form.register
def _explanations_form(found: Explanations) -> dict[str, Any]:
    senses = [{"name": e.name, "kind": e.kind, **dict(e.rows)} for e in found.senses]
    return {"schema": "sigmascope/explanation/1", "senses": senses}


@form.register
def _explanation_form(found: Explanation) -> dict[str, Any]:
    return json_form(Explanations((found,)))

"""The interactive page of a loss landscape."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sigmascope.gate import printable
from sigmascope.report.forms import json_form
from sigmascope.report.pages.html import write_page
from sigmascope.report.results import LAYER_NUMBERS, Scenery
from sigmascope.theory.landscape import Landscape

_SCRIPTS = ("words.js", "theme.js", "plots.js", "scenes.js", "landscape.js")


def landscape_page(
    found: Sequence[Landscape],
    path: str | os.PathLike[str],
    *,
    scenery: Scenery | None = None,
    loss: str = "",
    about: Mapping[str, str] | None = None,
) -> Path:
    """Write conditioning, curvature, loss surface and regions as one interactive HTML file.

    Args:
        found: The model as it is, and variants of it.
        path: The file to write; it appears complete or not at all.
        scenery: What else was measured.
        loss: Name of the loss; squared error if none is given.
        about: Words about the measurement; `name` is the title.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    words = dict(about or {})
    data = {
        **json_form(found[0], found[1:], scenery=scenery, loss=loss),
        "about": words,
        "columns": [[t, t.replace(" ", "_"), says] for t, says in LAYER_NUMBERS.items()],
    }
    title = printable(words.get("name", "landscape"))
    return write_page(
        path, title=title, data=data, template="landscape.html", scripts=_SCRIPTS, plots=True
    )

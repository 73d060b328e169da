"""Layers of lower rank, as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis.compression import Compression
from sigmascope.gate import printable
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import estimate_form
from sigmascope.report.names import shortened

NAME = 40  # columns that a name is given


def compression_text(found: Compression, *, colour: bool = False, width: int = 100) -> str:
    """What can be saved, layer by layer, and the code that saves it.

    Args:
        found: From `diagnosis.compression.compression`.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
    """
    patch = found.patch()
    shown = rendered(_parts(found), colour=colour, width=width)
    return f"{shown.rstrip()}\n\n{patch}\n" if patch else shown  # code is not wrapped


def compression_form(found: Compression) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "schema": "sigmascope/compression/1",
        "says": found.says,
        "change": estimate_form(found.change),
        "parameters": list(found.parameters),
        "right": None if found.right is None else list(found.right),
        "patch": found.patch().splitlines(),
        "layers": [
            {
                "site": t.site,
                "rank": t.rank,
                "full": t.full,
                "error": estimate_form(t.error),
                "elsewhere": estimate_form(t.elsewhere),
                "change": estimate_form(t.change),
                "parameters": list(t.parameters),
            }
            for t in found.layers
        ],
    }


def _parts(found: Compression) -> Iterator[RenderableType]:
    yield Text(printable(found.says), "bold")
    if not found.layers:
        return
    yield ""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    titles = ("layer", "rank", "of", "layer loses", "elsewhere", "output changes", "parameters")
    for title in titles:
        grid.add_column(title, justify="left" if title == "layer" else "right", header_style="dim")
    for t in found.layers:
        grid.add_row(
            shortened(printable(t.site), NAME),
            str(t.rank),
            str(t.full),
            *(f"{e.value:.2%}" for e in (t.error, t.elsewhere, t.change)),
            f"{t.parameters[1]:,} of {t.parameters[0]:,}",
        )
    yield grid

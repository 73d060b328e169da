"""Layers of lower rank."""

from collections.abc import Iterator

from rich.text import Text

from sigmascope.diagnosis.compression import Compression
from sigmascope.gate import printable
from sigmascope.report.terminal.console import Code, Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.screens import Screen, grid, parts

NAME = 40  # columns that a name is given


@parts.register
def _compression(found: Compression, _: Screen) -> Iterator[Part]:
    yield Text(printable(found.says), "bold")
    if not found.layers:
        return
    yield ""
    titles = ("layer", "rank", "of", "layer loses", "elsewhere", "output changes", "parameters")
    table = grid(*titles, right=titles[1:])
    for t in found.layers:
        table.add_row(
            shortened(printable(t.site), NAME),
            str(t.rank),
            str(t.full),
            *(f"{e.value:.2%}" for e in (t.error, t.elsewhere, t.change)),
            f"{t.parameters[1]:,} of {t.parameters[0]:,}",
        )
    yield table
    yield ""
    yield Code(found.patch())

"""What names mean."""

from collections.abc import Iterator

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.screens import Screen, parts


@parts.register
def _explanations(found: Explanations, screen: Screen) -> Iterator[Part]:
    """Each sense under its name."""
    for place, sense in enumerate(found.senses):
        yield from ("",) * (place > 0)
        yield from parts(sense, screen)


@parts.register
def _explanation(sense: Explanation, _: Screen) -> Iterator[Part]:
    """Headings on the left, texts on the right."""
    yield Text.assemble((sense.name, "bold"), f": {sense.kind}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for heading, text in sense.rows:
        grid.add_row(heading, Text(text))
    yield Padding(grid, (0, 0, 0, 2))

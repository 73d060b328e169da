"""Designs in order."""

from collections.abc import Iterator

from rich.text import Text

from sigmascope.gate import printable
from sigmascope.report.results import Ranking
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, grid, parts

NAME = 40  # columns that a name is given


@parts.register
def _ranking(found: Ranking, _: Screen) -> Iterator[Part]:
    yield Text("How far training will come, of designs at equal cost", "bold")
    yield Text("0 % is the best constant output, 100 % all that the targets hold.", "dim")
    yield ""
    heads = ("", "forecast", "between", "fits", "rate", "passes")
    table = grid(heads[0], "design", *heads[1:], right=heads)
    for r in found.designs:
        e = r.forecast
        cells = (
            f"{e.value:.0%}",
            f"{e.low:.0%} and {e.high:.0%}",
            f"{r.probability.value:.2f}",
            compact(r.rate),
            str(r.passes),
        )
        table.add_row(str(r.place), Text(shortened(printable(r.name), NAME)), *cells)
    yield table
    yield ""
    for r in found.designs:
        yield Text(f"{r.place:>3}  {printable(r.why)}", "dim")

"""Training at the user's settings and beside them."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Profile
from sigmascope.report.runs import COLUMNS, LEFT, chances, facts, runs
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import measured
from sigmascope.report.terminal.screens import grid


def chances_grid(profile: Profile) -> Table | None:
    """The probabilities that training succeeds, each with what it is the probability of."""
    table = Table.grid(padding=(0, 2))
    for chance in chances(profile):
        says = Text(chance.says, "dim")
        table.add_row(_titled(chance.name), Text(measured(chance.estimate), "bold"), says)
    return table if table.row_count else None


def training_parts(profile: Profile) -> Iterator[Part]:
    """A row for each run, and under them what else was read; nothing where nothing was trained."""
    made = runs(profile)
    if made:
        table = grid("run", *COLUMNS.values(), right=[*COLUMNS.values()])
        for run in made:
            cells = (run.numbers.get(quantity) for quantity in COLUMNS)
            shown = ("–" if cell is None else measured(cell) for cell in cells)
            table.add_row(Text(printable(run.form)), *shown)
        yield table
        yield Text(LEFT, "dim")
    read = facts(profile)
    if read:
        more = Table.grid(padding=(0, 2))
        for r in read:
            more.add_row(r.quantity, measured(r.estimate))
        yield from [""] if made else []
        yield from (Text("At your settings:", "dim"), more)


def _titled(words: str) -> str:
    return words[:1].upper() + words[1:]

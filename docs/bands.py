"""The directive `bands`: between which values quantities lie in the reference networks.

One quantity a line. What stands in the table is read from `sigmascope.references` at each build.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from sigmascope import quantities
from sigmascope.references import Reference, references_of

HEAD = ("quantity", "when", "a quarter below", "median", "a quarter above", "networks")
WHEN = {"start": "before training", "trained": "after it"}


def rows(quantity: str) -> Iterator[tuple[str, ...]]:
    """One for each form and stage; one that says so where there are too few networks."""
    found = references_of(quantities.quantity(quantity).name)
    yield from map(_row, found)
    if not found:
        yield (quantity, "too few reference networks", *[""] * (len(HEAD) - 2))


def _row(r: Reference) -> tuple[str, ...]:
    of = f"{r.quantity} ({r.form})" if r.form else r.quantity
    numbers = (f"{value:.3g}" for value in (r.p25, r.median, r.p75))
    return (of, WHEN[r.stage], *numbers, str(r.networks))


class Bands(Directive):
    """A table of bands."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The table, in a box that scrolls on small screens."""
        found = [row for line in self.content if line.strip() for row in rows(line.strip())]
        group = nodes.tgroup("", cols=len(HEAD))
        group += [nodes.colspec(colwidth=1) for _ in HEAD]
        group += nodes.thead("", _line(HEAD))
        group += nodes.tbody("", *map(_line, found))
        return [nodes.table("", group, classes=["bands"])]


def _line(cells: tuple[str, ...]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("bands", Bands)
    return {"parallel_read_safe": True}

"""The directive `bands`: between which values quantities lie in the reference networks.

One quantity a line, in all its forms or in one, as `participation ratio (samples)`, or `view: NAME`
for all of a view. What stands in the table is read from `sigmascope.core.references` at each build.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from sigmascope.core import quantities
from sigmascope.core.references import Reference, references_of

HEAD = ("quantity", "when", "5 %", "25 %", "median", "75 %", "95 %", "networks")
WHEN = {"start": "before training", "trained": "after it"}


def rows(line: str) -> Iterator[tuple[str, ...]]:
    """One for each form and stage; one that says so where there are too few networks."""
    word, _, view = line.partition(": ")
    if word == "view":
        yield from map(_row, _of_view(view))
    else:
        yield from _of_quantity(line)


def _of_view(view: str) -> Iterator[Reference]:
    names = [q.name for q in quantities.in_view(view)]
    return (r for name in names for r in references_of(name, view=view))


def _of_quantity(quantity: str) -> Iterator[tuple[str, ...]]:
    name, _, form = quantity.partition(" (")
    known = references_of(quantities.quantity(name).name)
    found = [r for r in known if form in ("", f"{r.form})")]
    yield from map(_row, found)
    if not found:
        yield (quantity, "too few reference networks", *[""] * (len(HEAD) - 2))


def _row(r: Reference) -> tuple[str, ...]:
    of = f"{r.quantity} ({r.form})" if r.form else r.quantity
    numbers = (f"{value:.3g}" for value in (r.p05, r.p25, r.median, r.p75, r.p95))
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

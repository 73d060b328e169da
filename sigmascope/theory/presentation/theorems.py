"""Theorems, and their checks on a model: how they look."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.guard import printable
from sigmascope.records import Check, Shown, Verdict
from sigmascope.records.encoding import encoded
from sigmascope.report.console import Part, measured, rendered
from sigmascope.report.forms import form
from sigmascope.report.screens import Screen, parts
from sigmascope.report.several import together
from sigmascope.report.tables import columns, row_columns
from sigmascope.theory.bounds import Bound


@dataclass(frozen=True, slots=True, repr=False)
class Checks(Shown):
    """Theorems that were checked on one model.

    Attributes:
        checks: From `theory.check`.
    """

    checks: tuple[Check, ...]


def theorems_text(
    theorems: Iterable[type[Bound]], *, colour: bool = False, width: int = 100
) -> str:
    """The catalogue: name, statement, source, and what the docstring says."""
    listed: list[Part] = []
    for theorem in theorems:
        listed.append(Text(theorem.name, "bold"))
        says = (theorem.__doc__ or "").strip().splitlines()[0]
        listed.append(Padding(Text(f"{says}\n{theorem.statement}\n{theorem.source}"), (0, 0, 1, 2)))
    return rendered(listed, colour=colour, width=width)


@together.register
def _together(first: Check, several: tuple[Any, ...]) -> Checks:
    return Checks(several)


@parts.register
def _checks(found: Checks, _: Screen) -> Iterator[Part]:
    """Every check on a line of its own, theorem by theorem; inapplicable ones with the reason."""
    if not found.checks:
        yield Text("No theorem of the catalogue speaks of this model.")
    for name in dict.fromkeys(c.theorem for c in found.checks):
        group = [c for c in found.checks if c.theorem == name]
        counts = ", ".join(
            f"{sum(c.verdict is v for c in group)} {v.value}"
            for v in Verdict
            if any(c.verdict is v for c in group)
        )
        yield Text.assemble((printable(name), "bold"), f": {counts}")
        yield Padding(Text(f"{group[0].statement}   ({group[0].source})", "dim"), (0, 0, 0, 2))
        table = Table.grid(padding=(0, 2))
        for c in group:
            failed = "; ".join(a.says for a in c.assumptions if a.met is False)
            why = f"not met: {failed}" if failed else c.note
            sides = ""
            if c.measured is not None and c.limit is not None:
                sides = f"{measured(c.measured)} {_SIGNS[c.sense]} {measured(c.limit)}"
            verdict = Text(c.verdict.value, _VERDICTS[c.verdict])
            table.add_row(Text(printable(c.site)), verdict, Text(sides), Text(why, "dim"))
        yield Padding(table, (0, 0, 1, 2))


@parts.register
def _check(check: Check, screen: Screen) -> Iterator[Part]:
    yield from parts(Checks((check,)), screen)


_VERDICTS = {
    Verdict.HOLDS: "green",
    Verdict.CONSISTENT: "green",
    Verdict.VACUOUS: "dim",
    Verdict.VIOLATED: "bold red",
    Verdict.INAPPLICABLE: "dim",
}
_SIGNS = {"at most": "≤", "at least": "≥"}


@form.register
def _checks_form(found: Checks) -> dict[str, Any]:
    return {"schema": "sigmascope/checks/1", **encoded(found)}


@columns.register
def _checks_columns(found: Checks) -> dict[str, list[Any]]:
    return row_columns(Check, found.checks)

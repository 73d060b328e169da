"""Two states of a model side by side: how that looks."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from sigmascope.guard import printable
from sigmascope.records import Finding
from sigmascope.records.encoding import encoded, strict
from sigmascope.report.console import Part, compact, measured, shortened
from sigmascope.report.forms import form, some
from sigmascope.report.screens import Screen, grid, parts, section, shortlist
from sigmascope.report.tables import columns, row_columns
from sigmascope.survey import Change
from sigmascope.theory.comparing import Comparison
from sigmascope.theory.le2022.conservation import broken_balances

MOST = 12  # rows of a section, unless all are wanted
NAME = 44  # columns that a name is given


@parts.register
def _comparison(
    found: Comparison, screen: Screen, findings: Sequence[Finding] | None = None
) -> Iterator[Part]:
    findings = broken_balances(found.drifts) if findings is None else findings
    moved = [c for c in found.changes if c.moved]
    yield Text(f"{len(moved)} of {len(found.changes)} quantities moved.", "bold")
    for f in findings:
        yield ""
        yield Text.assemble(
            (f.severity.upper(), "bold yellow"), f"  {f.name} at {printable(f.site)}"
        )
        yield Text(f"  {printable(f.says)}")
    if moved:
        yield ""
        right = ("before", "after", "factor")
        table = grid("where", "what", *right, right=right)
        chosen, more = shortlist(sorted(moved, key=_surprise, reverse=True), 2 * MOST, screen)
        for c in chosen:
            what = f"{c.quantity} ({c.form})" if c.form else c.quantity
            numbers = (measured(c.before), measured(c.after), compact(c.factor, digits=3))
            table.add_row(Text(shortened(printable(c.site), NAME)), what, *numbers)
        if more:
            table.add_row(Text(f"{more} (--whole lists them)", "dim"))
        yield table
    if found.drifts:
        table = grid("verdict", "drift", "allowed", "between", fold=True)
        ordered = sorted(found.drifts, key=lambda d: d.drift, reverse=True)
        chosen, more = shortlist(ordered, MOST, screen)
        for d in chosen:
            check = d.check()
            allowed = "" if check.limit is None else compact(check.limit.high, digits=2)
            between = Text(shortened(printable(d.site), 2 * NAME))
            table.add_row(str(check.verdict), compact(d.drift, digits=3), allowed, between)
        if more:
            table.add_row(Text(more, "dim"))
        unmet = (a.says for d in found.drifts for a in d.assumptions() if a.met is False)
        for words in dict.fromkeys(unmet):
            table.add_row("", "", "", Text(f"inapplicable where this is not so: {words}", "dim"))
        yield from section("Balances", table)
    if found.signs:
        table = grid()
        ordered = sorted(found.signs.items(), key=lambda item: item[1], reverse=True)
        chosen, more = shortlist(ordered, MOST, screen)
        for name, share in chosen:
            table.add_row(Text(shortened(printable(name), NAME)), f"{share:.2%}")
        if more:
            table.add_row(Text(more, "dim"))
        yield from section("Share of the entries whose sign changed", table)
    if found.missing:
        yield ""
        yield Text(f"Only in one of them: {printable(', '.join(found.missing[:MOST]))}", "dim")


def _surprise(change: Change) -> float:
    """How far a factor is from one, either way."""
    factor = abs(change.factor)
    return float("inf") if factor in (0.0, float("inf")) else max(factor, 1 / factor)


@form.register
def _comparison_form(
    found: Comparison, findings: Sequence[Finding] | None = None
) -> dict[str, Any]:
    findings = broken_balances(found.drifts) if findings is None else findings
    return {
        "schema": "sigmascope/comparison/1",
        "changes": [{**encoded(c), "moved": c.moved} for c in found.changes],
        "drifts": [
            {**encoded(d.check()), "drift": strict(d.drift), "kind": d.invariant.kind}
            for d in found.drifts
        ],
        **some(found, "signs", "missing"),
        "findings": [some(f, "name", "site", "says") for f in findings],
    }


@columns.register
def _comparison_columns(found: Comparison) -> dict[str, list[Any]]:
    return row_columns(Change, found.changes)

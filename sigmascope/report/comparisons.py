"""Two states of a model side by side, as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Finding
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import check_form, estimate_form, strict
from sigmascope.report.names import shortened
from sigmascope.report.numbers import compact, measured
from sigmascope.survey import Change, Comparison
from sigmascope.theory import le2022

MOST = 12  # rows of a section, unless all are wanted
NAME = 44  # columns that a name is given


def comparison_text(
    found: Comparison,
    findings: Sequence[Finding] = (),
    *,
    colour: bool = False,
    width: int = 100,
    whole: bool = False,
) -> str:
    """What changed between two states, most changed first, and how balances fared.

    Args:
        found: From `survey.compare`.
        findings: Of the balances.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
        whole: Whether to list everything.
    """
    return rendered(_comparison(found, findings, whole), colour=colour, width=width)


def comparison_form(found: Comparison, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "schema": "sigmascope/comparison/1",
        "changes": [
            {
                "site": c.site,
                "quantity": c.quantity,
                "view": c.view,
                "form": c.form,
                "before": estimate_form(c.before),
                "after": estimate_form(c.after),
                "moved": c.moved,
            }
            for c in found.changes
        ],
        "drifts": [
            {**check_form(d.check()), "drift": strict(d.drift), "kind": d.invariant.kind}
            for d in found.drifts
        ],
        "signs": dict(found.signs),
        "missing": list(found.missing),
        "findings": [{"name": f.name, "site": f.site, "says": f.says} for f in findings],
    }


def _comparison(
    found: Comparison, findings: Sequence[Finding], whole: bool
) -> Iterator[RenderableType]:
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
        yield _moved(sorted(moved, key=_surprise, reverse=True), whole)
    if found.drifts:
        yield ""
        yield Text("Balances", "bold")
        yield _drifts(found.drifts, whole)
    if found.signs:
        yield ""
        yield Text("Share of the entries whose sign changed", "bold")
        yield _signs(found, whole)
    if found.missing:
        yield ""
        yield Text(f"Only in one of them: {printable(', '.join(found.missing[:MOST]))}", "dim")


def _surprise(change: Change) -> float:
    """How far a factor is from one, either way."""
    factor = abs(change.factor)
    return float("inf") if factor in (0.0, float("inf")) else max(factor, 1 / factor)


def _moved(changes: Sequence[Change], whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("where", "what", "before", "after", "factor"):
        right = title in ("before", "after", "factor")
        grid.add_column(title, justify="right" if right else "left", header_style="dim")
    chosen = changes if whole else changes[: 2 * MOST]
    for c in chosen:
        what = f"{c.quantity} ({c.form})" if c.form else c.quantity
        numbers = (measured(c.before), measured(c.after), compact(c.factor, digits=3))
        grid.add_row(Text(shortened(printable(c.site), NAME)), what, *numbers)
    if len(chosen) < len(changes):
        grid.add_row(Text(f"… {len(changes) - len(chosen)} more (--whole lists them)", "dim"))
    return grid


def _drifts(drifts: Sequence[le2022.conservation.Drift], whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("verdict", "drift", "allowed", "between"):
        grid.add_column(title, header_style="dim", overflow="fold")
    chosen = sorted(drifts, key=lambda d: d.drift, reverse=True)
    for d in chosen if whole else chosen[:MOST]:
        check = d.check()
        allowed = "" if check.limit is None else compact(check.limit.high, digits=2)
        grid.add_row(
            str(check.verdict),
            compact(d.drift, digits=3),
            allowed,
            Text(shortened(printable(d.site), 2 * NAME)),
        )
    if not whole and len(chosen) > MOST:
        grid.add_row(Text(f"… {len(chosen) - MOST} more", "dim"))
    unmet = (a.says for d in drifts for a in d.assumptions() if a.met is False)
    for words in dict.fromkeys(unmet):
        grid.add_row("", "", "", Text(f"inapplicable where this is not so: {words}", "dim"))
    return grid


def _signs(found: Comparison, whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    ordered = sorted(found.signs.items(), key=lambda item: item[1], reverse=True)
    for name, share in ordered if whole else ordered[:MOST]:
        grid.add_row(Text(shortened(printable(name), NAME)), f"{share:.2%}")
    if not whole and len(ordered) > MOST:
        grid.add_row(Text(f"… {len(ordered) - MOST} more", "dim"))
    return grid

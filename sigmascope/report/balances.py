"""Balances and comparisons, as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis import Finding
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import check_form, estimate_form, strict
from sigmascope.report.names import printable, shortened
from sigmascope.report.numbers import compact, measured
from sigmascope.survey import Change, Comparison
from sigmascope.theory import le2022

MOST = 12  # rows of a section, unless all are wanted
NAME = 44  # columns that a name is given


def balances_text(
    found: le2022.Conserved, *, colour: bool = False, width: int = 100, whole: bool = False
) -> str:
    """What training conserves, what it does not, and why.

    Args:
        found: From `theory.le2022.conserved`.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
        whole: Whether to list everything.
    """
    return rendered(_balances(found, whole), colour=colour, width=width)


def balances_form(found: le2022.Conserved) -> dict[str, Any]:
    """The same as strict JSON."""
    each = lambda many: [_invariant(i) for i in many]
    return {
        "schema": "sigmascope/balances/1",
        "invariants": each(found.invariants),
        "broken": each(found.broken),
        "fixed": [
            {"tensor": f.tensor, "side": f.side, "count": f.count, "of": f.of, "why": f.why}
            for f in found.fixed
        ],
    }


def _invariant(i: le2022.Invariant) -> dict[str, Any]:
    return {
        "kind": i.kind,
        "tensors": list(i.tensors),
        "count": i.count,
        "formula": le2022.formula(i),
        "reason": le2022.reason(i),
        "rate": strict(i.rate),
        "tolerance": strict(i.tolerance),
    }


def _balances(found: le2022.Conserved, whole: bool) -> Iterator[RenderableType]:
    total = sum(i.count for i in found.invariants)
    yield Text(
        f"Gradient flow conserves {total:,} numbers in {len(found.invariants)} balances."
        if found.invariants
        else "Gradient flow conserves nothing here that is known.",
        "bold",
    )
    yield Text("Rates are those of the gradient on these examples, relative to its terms.", "dim")
    for invariant in found.broken:
        yield ""
        yield Text.assemble(("BROKEN", "bold red"), f"  {_names(invariant)}")
        yield Text(
            f"  The forward pass makes it constant, the gradient changes it (rate "
            f"{invariant.rate:.1g}): a backward pass is not the derivative of its forward pass, "
            "or a part is detached."
        )
    if found.invariants:
        yield ""
        yield _kept(found.invariants, whole)
    if found.fixed:
        yield ""
        yield Text("In no balance", "bold")
        yield _fixed(found, whole)


def _kept(many: Sequence[le2022.Invariant], whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("kind", "units", "numbers", "rate", "what, and why"):
        grid.add_column(title, justify="left", header_style="dim", overflow="fold")
    groups: dict[str, list[le2022.Invariant]] = {}
    for i in many:
        groups.setdefault(i.kind, []).append(i)
    for kind, members in groups.items():
        chosen = members if whole else members[:MOST]
        said = ""
        for i in chosen:
            says = Text(printable(_short(le2022.formula(i), whole)))
            why = le2022.reason(i)
            if why != said:
                says.append(f"\n{why}", "dim")
            said = why
            grid.add_row(kind, le2022.shown(i.what), f"{i.count:,}", f"{i.rate:.0e}", says)
        if len(chosen) < len(members):
            rest = sum(i.count for i in members[len(chosen) :])
            words = f"… {len(members) - len(chosen)} more (--whole lists them)"
            grid.add_row(kind, "", f"{rest:,}", "", Text(words, "dim"))
    return grid


def _short(words: str, whole: bool) -> str:
    return words if whole or len(words) <= 240 else f"{words[:200]} …"


def _names(invariant: le2022.Invariant) -> str:
    return printable(" ~ ".join(invariant.tensors))


def _fixed(found: le2022.Conserved, whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    groups: dict[str, list[str]] = {}
    for f in found.fixed:
        part = "" if f.count == f.of else f" ({f.count} of {f.of})"
        groups.setdefault(f.why, []).append(f"{f.tensor} {f.side}{part}")
    for why, names in groups.items():
        chosen = names if whole else names[:4]
        more = "" if len(chosen) == len(names) else f" and {len(names) - len(chosen)} more"
        grid.add_row(Text(printable(why), "dim"), printable(", ".join(chosen) + more))
    return grid


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


def _drifts(drifts: Sequence[le2022.Drift], whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("verdict", "drift", "allowed", "between"):
        grid.add_column(title, header_style="dim", overflow="fold")
    chosen = sorted(drifts, key=lambda d: d.drift, reverse=True)
    for d in chosen if whole else chosen[:MOST]:
        check = d.check()
        allowed = "" if d.declines else compact(check.limit.high, digits=2)
        grid.add_row(
            str(check.verdict),
            compact(d.drift, digits=3),
            allowed,
            Text(shortened(printable(d.site), 2 * NAME)),
        )
    if not whole and len(chosen) > MOST:
        grid.add_row(Text(f"… {len(chosen) - MOST} more", "dim"))
    reasons = dict.fromkeys(d.declines for d in drifts if d.declines)
    for words in reasons:
        grid.add_row("", "", "", Text(f"no verdict: {words}", "dim"))
    return grid


def _signs(found: Comparison, whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    ordered = sorted(found.signs.items(), key=lambda item: item[1], reverse=True)
    for name, share in ordered if whole else ordered[:MOST]:
        grid.add_row(Text(shortened(printable(name), NAME)), f"{share:.2%}")
    if not whole and len(ordered) > MOST:
        grid.add_row(Text(f"… {len(ordered) - MOST} more", "dim"))
    return grid

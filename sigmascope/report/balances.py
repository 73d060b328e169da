"""What training conserves, as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.quantities import View
from sigmascope.records import Profile
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import strict
from sigmascope.report.names import shortened
from sigmascope.report.numbers import measured
from sigmascope.theory import le2022

MOST = 12  # rows of a section, unless all are wanted


def balances_text(
    found: le2022.conservation.Conserved,
    *,
    colour: bool = False,
    width: int = 100,
    whole: bool = False,
) -> str:
    """What training conserves, what it does not, and why.

    Args:
        found: From `theory.le2022.conservation.conserved`.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
        whole: Whether to list everything.
    """
    return rendered(_balances(found, whole), colour=colour, width=width)


def readings_grid(profile: Profile, view: View, *, whole: bool) -> Table | None:
    """The readings of one view, quantity by quantity; of balances the largest first.

    Args:
        profile: What was measured.
        view: One that has no columns in the table of layers.
        whole: Whether to list everything.
    """
    found = [r for r in profile.readings if r.view == view]
    if not found:
        return None
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("quantity", "value", "where"):
        grid.add_column(title, header_style="dim", overflow="fold")
    for quantity in dict.fromkeys(r.quantity for r in found):
        mine = [r for r in found if r.quantity == quantity]
        if view == "balances":
            mine.sort(key=lambda r: r.estimate.value, reverse=True)
        for r in mine if whole else mine[:MOST]:
            grid.add_row(quantity, measured(r.estimate), Text(shortened(printable(r.site), 88)))
        if not whole and len(mine) > MOST:
            grid.add_row(quantity, "", Text(f"… {len(mine) - MOST} more", "dim"))
    return grid


def balances_form(found: le2022.conservation.Conserved) -> dict[str, Any]:
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


def _invariant(i: le2022.conservation.Invariant) -> dict[str, Any]:
    return {
        "kind": i.kind,
        "tensors": list(i.tensors),
        "count": i.count,
        "formula": le2022.conservation.formula(i),
        "reason": le2022.conservation.reason(i),
        "rate": strict(i.rate),
        "tolerance": strict(i.tolerance),
    }


def _balances(found: le2022.conservation.Conserved, whole: bool) -> Iterator[RenderableType]:
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


def _kept(many: Sequence[le2022.conservation.Invariant], whole: bool) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("kind", "units", "numbers", "rate", "what, and why"):
        grid.add_column(title, justify="left", header_style="dim", overflow="fold")
    groups: dict[str, list[le2022.conservation.Invariant]] = {}
    for i in many:
        groups.setdefault(i.kind, []).append(i)
    for kind, members in groups.items():
        chosen = members if whole else members[:MOST]
        said = ""
        for i in chosen:
            says = Text(printable(_short(le2022.conservation.formula(i), whole)))
            why = le2022.conservation.reason(i)
            if why != said:
                says.append(f"\n{why}", "dim")
            said = why
            grid.add_row(
                kind, le2022.conservation.shown(i.what), f"{i.count:,}", f"{i.rate:.0e}", says
            )
        if len(chosen) < len(members):
            rest = sum(i.count for i in members[len(chosen) :])
            words = f"… {len(members) - len(chosen)} more (--whole lists them)"
            grid.add_row(kind, "", f"{rest:,}", "", Text(words, "dim"))
    return grid


def _short(words: str, whole: bool) -> str:
    return words if whole or len(words) <= 240 else f"{words[:200]} …"


def _names(invariant: le2022.conservation.Invariant) -> str:
    return printable(" ~ ".join(invariant.tensors))


def _fixed(found: le2022.conservation.Conserved, whole: bool) -> Table:
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

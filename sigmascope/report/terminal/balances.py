"""What training conserves."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Profile, View
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import measured
from sigmascope.report.terminal.screens import Screen, grid, parts, section, shortlist
from sigmascope.theory import le2022

MOST = 12  # rows of a section, unless all are wanted


def readings_grid(profile: Profile, view: View, screen: Screen) -> Table | None:
    """The readings of one view, quantity by quantity; of balances the largest first.

    Args:
        profile: What was measured.
        view: One that has no columns in the table of layers.
        screen: Where it is shown.
    """
    found = [r for r in profile.readings if r.view == view]
    if not found:
        return None
    table = grid("quantity", "value", "where", fold=True)
    for quantity in dict.fromkeys(r.quantity for r in found):
        mine = [r for r in found if r.quantity == quantity]
        if view == "balances":
            mine.sort(key=lambda r: r.estimate.value, reverse=True)
        chosen, more = shortlist(mine, MOST, screen)
        for r in chosen:
            table.add_row(quantity, measured(r.estimate), Text(shortened(printable(r.site), 88)))
        if more:
            table.add_row(quantity, "", Text(more, "dim"))
    return table


@parts.register
def _balances(found: le2022.conservation.Conserved, screen: Screen) -> Iterator[Part]:
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
        yield _kept(found.invariants, screen)
    if found.fixed:
        yield from section("In no balance", _fixed(found, screen))


def _kept(many: Sequence[le2022.conservation.Invariant], screen: Screen) -> Table:
    table = grid("kind", "units", "numbers", "rate", "what, and why", fold=True)
    groups: dict[str, list[le2022.conservation.Invariant]] = {}
    for i in many:
        groups.setdefault(i.kind, []).append(i)
    for kind, members in groups.items():
        chosen, more = shortlist(members, MOST, screen)
        said = ""
        for i in chosen:
            says = Text(printable(_short(le2022.conservation.formula(i), screen.whole)))
            why = le2022.conservation.reason(i)
            if why != said:
                says.append(f"\n{why}", "dim")
            said = why
            table.add_row(
                kind, le2022.conservation.shown(i.what), f"{i.count:,}", f"{i.rate:.0e}", says
            )
        if more:
            rest = sum(i.count for i in members[len(chosen) :])
            words = Text(f"{more} (--whole lists them)", "dim")
            table.add_row(kind, "", f"{rest:,}", "", words)
    return table


def _short(words: str, whole: bool) -> str:
    return words if whole or len(words) <= 240 else f"{words[:200]} …"


def _names(invariant: le2022.conservation.Invariant) -> str:
    return printable(" ~ ".join(invariant.tensors))


def _fixed(found: le2022.conservation.Conserved, screen: Screen) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    groups: dict[str, list[str]] = {}
    for f in found.fixed:
        part = "" if f.count == f.of else f" ({f.count} of {f.of})"
        groups.setdefault(f.why, []).append(f"{f.tensor} {f.side}{part}")
    for why, names in groups.items():
        chosen, more = shortlist(names, 4, screen)
        words = ", ".join(chosen) + more.replace("…", " and")
        table.add_row(Text(printable(why), "dim"), printable(words))
    return table

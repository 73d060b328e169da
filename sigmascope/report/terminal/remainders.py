"""What stands at the end of a report: theorems, contradictions, what was not measured."""

from collections import Counter

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Check, Profile, Verdict
from sigmascope.report.results import spoke
from sigmascope.report.terminal.numbers import measured
from sigmascope.report.terminal.screens import Screen, grid, ruled


def checks_grid(profile: Profile) -> Table | None:
    """How each theorem fared that said something of this model; None where none did."""
    table = ruled()
    table.add_column("theorem", overflow="fold")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right")
    table.add_column("source", overflow="fold")
    for theorem, checks in _by_theorem(profile).items():
        counts = Counter(c.verdict for c in checks)
        if spoke(checks):
            numbers = (str(counts[verdict] or "·") for verdict in Verdict)
            table.add_row(Text(printable(theorem)), *numbers, Text(printable(checks[0].source)))
    return table if table.row_count else None


def inapplicable(profile: Profile) -> str:
    """How many theorems said nothing of this model, by name; empty where each said something."""
    groups = _by_theorem(profile)
    silent = [printable(name) for name, checks in groups.items() if not spoke(checks)]
    if not silent:
        return ""
    if len(silent) == len(groups):
        return f"Of {len(groups)} that were looked at none applies here: {', '.join(silent)}."
    apply = "does" if len(silent) == 1 else "do"
    return f"{len(silent)} more {apply} not apply here: {', '.join(silent)}."


def skipped_grid(profile: Profile, screen: Screen) -> Table | None:
    """What was not measured, and why; sites of one reason in one row, unless all are wanted."""
    if not profile.skipped:
        return None
    table = grid("", "", "", fold=True)
    table.show_header = False
    groups: dict[tuple[str, ...], list[str]] = {}
    for i, s in enumerate(profile.skipped):
        groups.setdefault((s.what, s.why, str(i) if screen.whole else ""), []).append(s.site)
    for (what, why, _), sites in groups.items():
        more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        table.add_row(*(Text(printable(word)) for word in (sites[0] + more, what, why)))
    return table


def violations(profile: Profile) -> tuple[str, ...]:
    """One line per site at which a theorem was contradicted: a bug, or a tacit assumption."""
    return tuple(_violation(c) for c in profile.checks if c.verdict is Verdict.VIOLATED)


def _by_theorem(profile: Profile) -> dict[str, list[Check]]:
    groups: dict[str, list[Check]] = {}
    for check in profile.checks:
        groups.setdefault(check.theorem, []).append(check)
    return groups


def _violation(check: Check) -> str:
    assert check.measured is not None  # a violated theorem has been asked for both
    assert check.limit is not None
    sides = f"{measured(check.measured)} is not {check.sense} {measured(check.limit)}"
    return f"{printable(check.theorem)} is violated at {printable(check.site)}: {sides}"

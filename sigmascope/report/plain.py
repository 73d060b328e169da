"""The report as a terminal shows it."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis.trainability import probability
from sigmascope.gate import printable
from sigmascope.records import Finding, Profile, Reading
from sigmascope.report.balances import readings_grid
from sigmascope.report.consoles import rendered
from sigmascope.report.coverage import coverage, no_findings
from sigmascope.report.grids import (
    checks_grid,
    layers_grid,
    skipped_grid,
    sparklines_grid,
    violations,
)
from sigmascope.report.numbers import measured, risk

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
_EVIDENCE = 4  # readings shown with a finding; the rest are counted


def text(
    profile: Profile,
    findings: tuple[Finding, ...],
    *,
    colour: bool = False,
    width: int = 100,
    whole: bool = False,
) -> str:
    """The report for a terminal: coverage, findings, curves, layers, theorems, what is missing.

    Args:
        profile: What was measured.
        findings: What was found in it.
        colour: Whether to colour it with escape sequences; never needed to understand it.
        width: Columns of the terminal.
        whole: Whether to list every layer of a deep net, and every site that was not measured.

    Returns:
        Lines of at most `width` columns, the first of which says how much was measured.
    """
    return rendered(_parts(profile, findings, width, whole), colour=colour, width=width)


def _parts(
    profile: Profile, findings: tuple[Finding, ...], width: int, whole: bool
) -> Iterator[RenderableType]:
    seen = coverage(profile)
    yield Text(seen.says, "bold")
    if profile.about:
        yield Text(_about(profile), "dim")
    yield ""
    trains = probability(profile)
    if trains is not None:
        yield Text(f"Probability that plain training fits these data: {measured(trains.estimate)}")
        yield ""
    if not findings:
        yield Text(no_findings(seen), "yellow" if seen.unseen else "bold green")
    for i, finding in enumerate(findings):
        yield from ([""] if i and not finding.follows else [])
        yield from _consequence(finding) if finding.follows else _finding(finding)
    if seen.unseen:
        yield from ([""] if findings else [])
        yield Text(f"Not looked at: {printable('; '.join(seen.unseen))}.")
    yield from _section("Over depth", sparklines_grid(profile, width))
    sites = frozenset(f.site for f in findings)
    yield from _section("Layers", layers_grid(profile, sites, width, whole=whole))
    yield from _section("Balances", readings_grid(profile, "balances", whole=whole))
    yield from _section("Bottleneck", readings_grid(profile, "bottleneck", whole=whole))
    yield from _section("Theorems", checks_grid(profile))
    yield from (Text(line, "bold red") for line in violations(profile))
    yield from _section("Not measured", skipped_grid(profile, whole=whole))


def _section(title: str, grid: Table | None) -> Iterator[RenderableType]:
    if grid is not None:
        yield ""
        yield Text(title, "bold")
        yield grid


def _about(profile: Profile) -> str:
    words = ((printable(key), printable(value)) for key, value in profile.about.items())
    return " · ".join(f"{key} {value}" for key, value in words)


def _finding(finding: Finding) -> Iterator[RenderableType]:
    style = _STYLES[finding.severity]
    place = f" at {printable(finding.site)}" if finding.site else ""
    yield Text.assemble((finding.severity.upper(), style), f"  {printable(finding.name)}{place}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("", Text(printable(finding.says)))
    grid.add_row("evidence", Text("\n".join(_evidence(finding.evidence))))
    grid.add_row("source", Text(printable(finding.source)))
    if finding.remedies:
        grid.add_row("do", Text("\n".join(map(printable, finding.remedies))))
    yield Padding(grid, (0, 0, 0, 2))


def _consequence(finding: Finding) -> Iterator[RenderableType]:
    """One line and its sentence, under the cause that it follows from."""
    place = f" at {printable(finding.site)}" if finding.site else ""
    head = Text.assemble(
        ("└ ", "dim"),
        (finding.severity, _STYLES[finding.severity]),
        f"  {printable(finding.name)}{place}",
        (f"  follows from {printable(finding.follows)}", "dim"),
    )
    yield Padding(head, (0, 0, 0, 2))
    yield Padding(Text(printable(finding.says), "dim"), (0, 0, 0, 4))


def _evidence(readings: tuple[Reading, ...]) -> Iterator[str]:
    shown = readings[:_EVIDENCE]
    for r in shown:
        yield f"{printable(r.site)}: {r.quantity} {measured(r.estimate)}"
    if len(readings) > _EVIDENCE:
        yield f"and {len(readings) - _EVIDENCE} more"
    if any(r.estimate.risk for r in shown):
        yield risk(max((r.estimate for r in shown), key=lambda e: e.risk))

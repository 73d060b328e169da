"""A profile, and what was found in it."""

from collections.abc import Iterator, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis import judge
from sigmascope.gate import printable
from sigmascope.records import Finding, Profile, Reading
from sigmascope.report.causes import folded, headline
from sigmascope.report.coverage import Coverage, coverage, no_findings
from sigmascope.report.terminal.balances import readings_grid
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.layers import layers_grid, sparklines_grid
from sigmascope.report.terminal.numbers import measured, risk
from sigmascope.report.terminal.remainders import (
    checks_grid,
    inapplicable,
    skipped_grid,
    violations,
)
from sigmascope.report.terminal.screens import Screen, parts, section
from sigmascope.report.terminal.training import chances_grid, training_parts

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
APART = ("setup", "training")  # views whose quantities are read of several things, told by `form`
_EVIDENCE = 4  # readings shown with a finding; the rest are counted


@parts.register
def _profile(
    profile: Profile, screen: Screen, findings: Sequence[Finding] | None = None
) -> Iterator[Part]:
    """Coverage, findings, curves, layers, theorems, what is missing."""
    findings = judge(profile) if findings is None else findings
    yield from _opening(profile, coverage(profile), findings, screen)
    sites = frozenset(f.site for f in findings)
    for title, inside in (
        ("Training", [*training_parts(profile)]),
        ("Over depth", [sparklines_grid(profile, screen)]),
        ("Layers", [layers_grid(profile, sites, screen)]),
        ("Balances", [readings_grid(profile, "balances", screen)]),
        ("Bottleneck", [readings_grid(profile, "bottleneck", screen)]),
        ("Theorems", [*_theorems(profile)]),
        ("Not measured", [skipped_grid(profile, screen)]),
    ):
        shown = [part for part in inside if part is not None]
        yield from section(title, *shown) if shown else ()


def _theorems(profile: Profile) -> Iterator[Part | None]:
    """Those that said something of this model, and how many did not."""
    yield checks_grid(profile)
    if profile.checks and (words := inapplicable(profile)):
        yield Text(words, "dim")
    yield from (Text(line, "bold red") for line in violations(profile))


def _opening(
    profile: Profile, seen: Coverage, findings: Sequence[Finding], screen: Screen
) -> Iterator[Part]:
    yield Text(seen.says, "bold")
    if profile.about:
        yield Text(_about(profile), "dim")
    yield ""
    if (odds := chances_grid(profile)) is not None:
        yield from (odds, "")
    if findings:
        yield from told(findings, screen)
    else:
        yield Text(no_findings(seen), "yellow" if seen.unseen else "bold green")
    if seen.unseen:
        yield from ([""] if findings else [])
        yield Text(f"Not looked at: {printable('; '.join(seen.unseen))}.")


def told(findings: Sequence[Finding], screen: Screen) -> Iterator[Part]:
    """How many there are, then each cause with what follows from it."""
    more = f"; `sigmascope explain {printable(findings[0].name)}` says more of a name"
    yield from (Text.assemble((headline(findings), "bold"), (more, "dim")), "")
    for i, (cause, rest) in enumerate(folded(findings).items()):
        yield from [""] if i else []
        yield from parts(findings[cause], screen)
        for place in rest:
            yield from _consequence(findings[place])


def _about(profile: Profile) -> str:
    words = ((printable(key), printable(value)) for key, value in profile.about.items())
    return " · ".join(f"{key} {value}" for key, value in words)


@parts.register
def _finding(finding: Finding, _: Screen) -> Iterator[Part]:
    style = _STYLES[finding.severity]
    place = f" at {printable(finding.site)}" if finding.site else ""
    yield Text.assemble((finding.severity.upper(), style), f"  {printable(finding.name)}{place}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("", Text(printable(finding.says)))
    if finding.remedies:
        grid.add_row("do", Text("\n".join(map(printable, finding.remedies))))
    grid.add_row("evidence", Text("\n".join(_evidence(finding.evidence))))
    grid.add_row("source", Text(printable(finding.source)))
    if finding.follows:  # from what is not shown, or it would be under its cause
        grid.add_row("follows", Text(f"from {printable(finding.follows)}"))
    yield Padding(grid, (0, 0, 0, 2))


def _consequence(finding: Finding) -> Iterator[Part]:
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
        apart = f", {printable(r.form)}:" if r.view in APART and r.form else ""
        yield f"{printable(r.site)}: {r.quantity}{apart} {measured(r.estimate)}"
    if len(readings) > _EVIDENCE:
        yield f"and {len(readings) - _EVIDENCE} more"
    if any(r.estimate.risk for r in shown):
        yield risk(max((r.estimate for r in shown), key=lambda e: e.risk))

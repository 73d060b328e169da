"""A program's diagnosis, and what was tried to cure it."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis import Diagnosis
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.gate import printable
from sigmascope.report.terminal.console import Code, Part
from sigmascope.report.terminal.screens import Screen, grid, parts, section

SHOWN = 3  # cures whose lines are printed


@parts.register
def _diagnosis(found: Diagnosis, screen: Screen, cures: Cures | None = None) -> Iterator[Part]:
    """The profile with its findings; behind it the cures."""
    yield from parts(found.profile, screen, found.findings)
    if cures is not None:
        yield ""
        yield from parts(cures, screen)


@parts.register
def _cures(found: Cures, screen: Screen) -> Iterator[Part]:
    """What was tried, the best first, and the lines of the first."""
    if not found.tried:
        none = "nothing was found that one is meant for"
        why = "what was thought of does not apply, or changes little" if found.declined else none
        yield Text(f"No cure: {why}.", "bold")
    else:
        yield Text("Cures, each trained on a copy as you train, the best first", "bold")
        yield from _tried(found.tried)
        for cure in found.tried[:SHOWN]:
            yield from parts(cure, screen)
    if found.declined:
        reasons = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            reasons.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Declined", reasons)


def _tried(cures: tuple[Cure, ...]) -> Iterator[Part]:
    """Scores, those on samples that were not trained on where there are such."""
    apart = any(c.others == c.others for c in cures)
    right = ("before", "after", *(["on others"] if apart else []))
    table = grid("cure", "meant for", *right, "steps", right=right)
    for cure in cures:
        scores = (cure.before, cure.after, *([cure.others] if apart else []))
        table.add_row(cure.name, cure.cause, *map(score, scores), str(cure.steps))
    yield table
    others = "; on others: on samples that they were not trained on" if apart else ""
    says = "Accuracy, or share of the targets' variance explained, on these samples"
    yield Text(f"{says}{others}.", "dim")


@parts.register
def _cure(cure: Cure, _: Screen) -> Iterator[Part]:
    """The lines by which a user writes it."""
    title = f"{cure.name}: {score(cure.before)} → {score(cure.after)} after {cure.steps} steps"
    lines = cure.diff.splitlines() if cure.diff else cure.patch
    yield from section(title)
    yield Code("\n".join(map(printable, lines)))


def score(value: float) -> str:
    """Two digits behind the point; a dash where there is none."""
    return "–" if value != value else f"{value:.2f}"

"""Findings in groups, each cause with what follows from it; and what was left out, by reason."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.core.guard import printable
from sigmascope.core.records import Finding, Skipped
from sigmascope.report.console import Part, measured, risk
from sigmascope.report.results import Screen, parts

SEVERITIES = ("error", "warning", "note")


def folded(findings: Sequence[Finding]) -> Mapping[int, tuple[int, ...]]:
    """The place of each cause, in order, with the places of what follows from it.

    What follows from a finding that is not among these stands as a cause itself: its reader is
    shown no other. Where several findings have the name of the cause, it is under the first.

    Args:
        findings: In the order in which they are shown.

    Example:
        >>> cause = Finding("dead-units", "fc", "error", (), "None fires.", "")
        >>> other = Finding("no-gradient", "out", "error", (), "It is 0.", "", (), "dead-units")
        >>> dict(folded((cause, other))), dict(folded((other,)))
        ({0: (1,)}, {0: ()})
    """
    firsts: dict[str, int] = {}
    for place, finding in enumerate(findings):
        firsts.setdefault(finding.name, place)
    # where the cause of causes of each stands; its own place if it is one, or leads in a circle
    roots: list[int] = []
    for place in range(len(findings)):
        passed = [place]
        while (above := firsts.get(findings[passed[-1]].follows)) is not None:
            if above in passed:
                passed = [place]
                break
            passed.append(above)
        roots.append(passed[-1])
    return {
        cause: tuple(p for p, root in enumerate(roots) if root == cause != p)
        for cause, root in enumerate(roots)
        if cause == root
    }


def headline(findings: Sequence[Finding]) -> str:
    """How many causes there are, how severe they are, and how much follows from them."""
    groups = folded(findings)
    counts = Counter(findings[place].severity for place in groups)
    kinds = ", ".join(_counted(counts[kind], kind) for kind in SEVERITIES if counts[kind])
    more = len(findings) - len(groups)
    follow = f"; {_counted(more, 'finding')} {'follows' if more == 1 else 'follow'} from "
    tail = f"{follow}{'it' if len(groups) == 1 else 'them'}" if more else ""
    return f"{_counted(len(groups), 'cause')}: {kinds}{tail}."


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
APART = ("setup", "training")  # views whose quantities are read of several things, told by `form`
_EVIDENCE = 4  # readings shown with a finding; the rest are counted


def told(findings: Sequence[Finding], screen: Screen) -> Iterator[Part]:
    """How many there are, then each cause with what follows from it."""
    more = f"; `sigmascope explain {printable(findings[0].name)}` says more of a name"
    yield from (Text.assemble((headline(findings).rstrip("."), "bold"), (more, "dim")), "")
    for i, (cause, rest) in enumerate(folded(findings).items()):
        yield from [""] if i else []
        yield from parts(findings[cause], screen)
        for finding in (findings[place] for place in rest):  # a line and a sentence of each
            place = f" at {printable(finding.site)}" if finding.site else ""
            head = Text.assemble(
                ("└ ", "dim"),
                (finding.severity, _STYLES[finding.severity]),
                f"  {printable(finding.name)}{place}",
                (f"  follows from {printable(finding.follows)}", "dim"),
            )
            yield Padding(head, (0, 0, 0, 2))
            yield Padding(Text(printable(finding.says), "dim"), (0, 0, 0, 4))


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
    if finding.evidence or finding.facts:
        lines = [f"{printable(f.site)}: {f.quantity} {printable(f.word)}" for f in finding.facts]
        shown = finding.evidence[:_EVIDENCE]
        for r in shown:
            apart = f", {printable(r.form)}:" if r.view in APART and r.form else ""
            lines.append(f"{printable(r.site)}: {r.quantity}{apart} {measured(r.estimate)}")
        if len(finding.evidence) > _EVIDENCE:
            lines.append(f"and {len(finding.evidence) - _EVIDENCE} more")
        if any(r.estimate.risk for r in shown):
            lines.append(risk(max((r.estimate for r in shown), key=lambda e: e.risk)))
        grid.add_row("evidence", Text("\n".join(lines)))
    grid.add_row("source", Text(printable(finding.source)))
    if finding.follows:  # from what is not shown, or it would be under its cause
        grid.add_row("follows", Text(f"from {printable(finding.follows)}"))
    yield Padding(grid, (0, 0, 0, 2))


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\.?\w)")  # none within a name


def reasons(skipped: Iterable[Skipped]) -> dict[tuple[str, str], list[str]]:
    """The sites of each reason, under what was not measured and why; the commonest first.

    Reasons that differ in their numbers alone are one, with the range of each number.
    """
    found: dict[tuple[str, str], list[Skipped]] = {}
    for each in skipped:
        found.setdefault((each.what, NUMBER.sub("#", each.why)), []).append(each)
    named: dict[tuple[str, str], list[Skipped]] = {}
    for (what, _), some in found.items():
        # where the numbers of these sentences differ, from the least to the largest
        slots = zip(*(NUMBER.findall(s.why) for s in some), strict=True)
        ends = (sorted(set(slot), key=float) for slot in slots)
        words = iter([e[0] if len(e) == 1 else f"{e[0]} to {e[-1]}" for e in ends])
        named[what, NUMBER.sub(lambda _, words=words: next(words), some[0].why)] = some
    ordered = sorted(named.items(), key=lambda item: -len(item[1]))
    return {key: [s.site for s in some] for key, some in ordered}

"""Findings in groups: each cause with what follows from it."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sigmascope.records import Finding

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
    roots = [_root(place, findings, firsts) for place in range(len(findings))]
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


def _root(place: int, findings: Sequence[Finding], firsts: Mapping[str, int]) -> int:
    """Where the cause of causes stands; the place itself if it is one, or leads in a circle."""
    passed = [place]
    while (above := firsts.get(findings[passed[-1]].follows)) is not None:
        if above in passed:
            return place
        passed.append(above)
    return passed[-1]


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"

"""From which step to which an alarm was in force."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sigmascope.records import Finding
from sigmascope.store import Row
from sigmascope.watching.looks import OVER


@dataclass(frozen=True, slots=True)
class AlarmSpan:
    """An alarm of a run, from where it begins to where it ends.

    Attributes:
        finding: What was said when it began.
        begin: Step at which it began.
        end: Step at which it ended; None while it is in force.
    """

    finding: Finding
    begin: int
    end: int | None = None


def alarm_spans(findings: Iterable[Row[Finding]]) -> tuple[AlarmSpan, ...]:
    """The alarms of a run in the order in which they began.

    One that begins anew while it is in force, as after a restart, goes on.

    Args:
        findings: As a run file has them: those that begin, and notes named `"...-over"` that end
            the one of that name at that site.
    """
    spans: list[AlarmSpan] = []
    open_: dict[tuple[str, str], int] = {}  # places in the list
    for row in findings:
        finding: Finding = row.record
        name = finding.name.removesuffix(OVER)
        place = open_.get((name, finding.site))
        if name != finding.name:
            if place is not None:
                spans[place] = replace(spans[place], end=row.step)
                del open_[name, finding.site]
        elif place is None:
            open_[name, finding.site] = len(spans)
            spans.append(AlarmSpan(finding, row.step))
        else:
            spans[place] = AlarmSpan(finding, min(row.step, spans[place].begin))
    return tuple(sorted(spans, key=lambda span: span.begin))

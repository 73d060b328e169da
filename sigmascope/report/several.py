"""Several results of one kind are shown as one: findings under their headline, others in turn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sigmascope.core.guard import WrongKind
from sigmascope.core.records import Finding, Shown
from sigmascope.report.console import Part
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.figures import Sheet, drawn
from sigmascope.report.findings import told
from sigmascope.report.results import (
    Screen,
    by_kind,
    columns,
    form,
    has_rows,
    is_record_of_ours,
    parts,
    refused,
)


@dataclass(frozen=True, slots=True, repr=False)
class Findings(Shown):
    """What `judge` found, each cause with what follows from it.

    Attributes:
        findings: In their order.
    """

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Results(Shown):
    """Results of one kind of which no more is known than how each of them is shown.

    Attributes:
        results: In the order in which they are shown.
    """

    results: tuple[Any, ...]


@by_kind
def together(first: Any, several: tuple[Any, ...]) -> Any:
    """What several results of one kind are shown as; as products have registered it by the first.

    Args:
        first: Of them.
        several: All.
    """
    if not is_record_of_ours(first):
        raise refused(first)
    return Results(several)


@together.register
def _findings(first: Finding, several: tuple[Any, ...]) -> Findings:
    return Findings(several)


@together.register
def _explanations(first: Explanation, several: tuple[Any, ...]) -> Explanations:
    return Explanations(several)


def _one(found: Any) -> Any:
    several = tuple(found)
    kinds = dict.fromkeys(type(each).__name__ for each in several)
    if len(kinds) > 1:
        raise WrongKind(
            f"Results of one kind were expected, got {' and '.join(kinds)}. Show each by itself."
        )
    return together(several[0], several) if several else Results(())


# ------------------------------------------------------------------------------
# What a door returns as a tuple, a list or one by one is shown, written and listed at once.


@parts.register
def _parts(
    found: tuple | list | Iterator, screen: Screen, *beside: Any, **more: Any
) -> Iterator[Part]:
    yield from parts(_one(found), screen, *beside, **more)


@form.register
def _form(found: tuple | list | Iterator, *beside: Any, **more: Any) -> dict[str, Any]:
    return form(_one(found), *beside, **more)


@drawn.register
def _drawn(found: tuple | list | Iterator, sheet: Sheet, *beside: Any, **more: Any) -> None:
    drawn(_one(found), sheet, *beside, **more)


@columns.register
def _columns(found: tuple | list | Iterator) -> dict[str, list[Any]]:
    return columns(_one(found))


@parts.register
def _findings_parts(found: Findings, screen: Screen) -> Iterator[Part]:
    yield from told(found.findings, screen) if found.findings else ("No findings.",)


has_rows(Findings, "findings", Finding)


@parts.register
def _results_parts(found: Results, screen: Screen, *beside: Any, **more: Any) -> Iterator[Part]:
    """One after the other."""
    if not found.results:
        yield "There are none."
    for place, each in enumerate(found.results):
        yield from ("",) * (place > 0)
        yield from parts(each, screen, *beside, **more)


@form.register
def _results_form(found: Results, *beside: Any, **more: Any) -> dict[str, Any]:
    results = [form(each, *beside, **more) for each in found.results]
    return {"schema": "sigmascope/results/1", "results": results}


@columns.register
def _results_columns(found: Results) -> dict[str, list[Any]]:
    """Those of each below one another, with its number; None where one has no such column."""
    tables = [columns(each) for each in found.results]
    names = dict.fromkeys(name for rows in tables for name in rows)
    counts = [len(next(iter(rows.values()), ())) for rows in tables]
    numbers = [place for place, count in enumerate(counts) for _ in range(count)]
    cells = {
        name: [
            cell
            for rows, count in zip(tables, counts, strict=True)
            for cell in rows.get(name, [None] * count)
        ]
        for name in names
    }
    return {"result": numbers, **cells}

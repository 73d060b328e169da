"""Several results of one kind are shown as one: findings under their headline, others in turn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sigmascope.core.guard import WrongKind
from sigmascope.core.records import Finding, Shown
from sigmascope.report.console import Part
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.figures import drawn
from sigmascope.report.findings import told
from sigmascope.report.results import (
    ByKind,
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


def gathered(
    one: type, several: Callable[[tuple[Any, ...]], Any], *alike: ByKind[..., Any]
) -> None:
    """Let records of a kind be shown as what holds several of them.

    Args:
        one: The kind of record.
        several: Makes of some of them what holds them.
        alike: What tells of one by itself as of several of which it is the only one.
    """
    together.register(lambda _, found: several(found), one)
    for tell in alike:
        tell.register(partial(_as, lambda found: several((found,)), tell), one)


def _as(
    of: Callable[[Any], Any], tell: ByKind[..., Any], found: Any, *beside: Any, **more: Any
) -> Any:
    return tell(of(found), *beside, **more)


gathered(Finding, Findings, drawn)
gathered(Explanation, Explanations)


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


for _tell in (parts, form, drawn, columns):
    for _kind in (tuple, list, Iterator):
        _tell.register(partial(_as, _one, _tell), _kind)


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

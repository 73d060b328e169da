"""Any result as text, as strict JSON and as rows: functions that every kind brings its own of.

`report` knows no product. A product registers what its results look like in the modules that
`products.PRESENTATIONS` names; they are imported when a result is shown that nothing is known of.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import singledispatch, update_wrapper
from inspect import signature
from typing import Any, Generic, ParamSpec, TypeVar

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.core import products
from sigmascope.core.encoding import encoded, object_of, wide
from sigmascope.core.guard import WrongKind, came, door, listed
from sigmascope.core.records import (
    Brief,
    Check,
    Estimate,
    Fact,
    Finding,
    Layer,
    Reading,
    Shown,
    SiteSpectrum,
    Skipped,
    brief,
)
from sigmascope.report.console import Part, measured, rendered, rendered_html
from sigmascope.report.explanations import Explanation, Explanations

P = ParamSpec("P")
T = TypeVar("T")


class ByKind(Generic[P, T]):
    """A function of a result that does what was registered for its kind.

    Args:
        otherwise: For results of which no product knows.
    """

    def __init__(self, otherwise: Callable[P, T]) -> None:
        self._by = singledispatch(otherwise)
        update_wrapper(self, otherwise)

    def __call__(self, *args: P.args, **more: P.kwargs) -> T:
        kind = type(args[0])
        for name in products.PRESENTATIONS:
            nearest = next(k for k in kind.__mro__ if k in self._by.registry)
            # what is known of a plain list says nothing of a result that is one
            if nearest is kind or nearest.__module__ != object.__module__:
                break
            products.modules((name,))
        own = self._by.dispatch(kind)
        form = signature(own)
        try:
            form.bind(*args, **more)
        except TypeError as error:
            takes = [n for n, p in form.parameters.items() if p.kind is p.KEYWORD_ONLY]
            raise WrongKind(
                f"A {kind.__name__} cannot be shown like that: {error}. Options of its own: "
                f"{listed(takes, most=9) or 'none'}; `help(sigmascope.text)` tells those of all."
            ) from None
        return own(*args, **more)

    def register(self, own: Callable[..., T], kind: type | None = None) -> Callable[..., T]:
        """What is done with results of a kind; if not given, of that of the first argument."""
        return self._by.register(own) if kind is None else self._by.register(kind, own)


def by_kind(otherwise: Callable[P, T]) -> ByKind[P, T]:
    """As a decorator of what is done with results of which no product knows."""
    return ByKind(otherwise)


def is_record_of_ours(result: Any) -> bool:
    """Whether a value is a record of this library, or a result that a user derived from one."""
    if isinstance(result, Shown):
        return True
    ours = type(result).__module__.partition(".")[0] == Shown.__module__.partition(".")[0]
    return ours and is_dataclass(result) and not isinstance(result, type)


def refused(result: Any) -> WrongKind:
    """What is raised where there is nothing else to be done."""
    return WrongKind(
        f"A result of this library was expected, got {came(result)}. Pass what `profile`, `judge` "
        "or another of its functions gave."
    )


# ------------------------------------------------------------------------------
# Results as strict JSON. What is not said here follows from the fields of the records.
#
# Numbers are written in full. JSON has no infinities: they are the strings `"Infinity"` and
# `"-Infinity"`, which `float` in Python and `Number` in JavaScript read back; an end of an interval
# is infinite where nothing is known on that side.


def json_form(result: Any, *beside: Any, **more: Any) -> dict[str, Any]:
    """A result as strict JSON, as `--json` of its command writes it.

    Args:
        result: A profile, which is then valid against `diagnosis.presentation.SCHEMA`, or another
            result of this library; or several of one kind.
        beside: What it is shown with, as the findings of a profile or a comparison.
        more: The same by name.

    Raises:
        TypeError: If it is no result of this library.

    Example:
        >>> from sigmascope.core.records import Profile
        >>> json_form(Profile(readings=()), ())["schema"]
        'sigmascope/profile/3'
    """
    return form(result, *beside, **more)


@by_kind
def form(result: Any, *beside: Any, **more: Any) -> dict[str, Any]:
    """What `json_form` gives, as the product that a result belongs to has registered it."""
    if is_record_of_ours(result):
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(result).__name__).lower()
        try:
            return {"schema": f"sigmascope/{name}/1", **encoded(result)}
        except TypeError:
            raise WrongKind(
                f"For JSON numbers, words and tensors were expected, got {came(result)}, which "
                "holds a model, a function or another object. `sigmascope.text` shows it."
            ) from None
    raise refused(result)


def some(result: Any, *names: str) -> dict[str, Any]:
    """These fields of a result."""
    return {name: encoded(getattr(result, name)) for name in names}


def has_form(kind: type, name: str) -> None:
    """Let results of a kind be all of their fields as JSON, under a schema of this name."""
    form.register(lambda found: {"schema": f"sigmascope/{name}/1", **encoded(found)}, kind)


@form.register
def _explanations_form(found: Explanations) -> dict[str, Any]:
    senses = [{"name": e.name, "kind": e.kind, **dict(e.rows)} for e in found.senses]
    return {"schema": "sigmascope/explanation/1", "senses": senses}


@form.register
def _explanation_form(found: Explanation) -> dict[str, Any]:
    return json_form(Explanations((found,)))


# ------------------------------------------------------------------------------
# Pieces of which schemas of that JSON are made: derived from the records.


NAMES = {
    Estimate: "estimate",
    Reading: "reading",
    Fact: "fact",
    Layer: "layer",
    SiteSpectrum: "spectrum",
    Check: "check",
    Finding: "finding",
    Skipped: "skipped",
}
TEXT = {"type": "string"}
DEPTH = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Order of the layer, from 0; one past the last for the network's output; null "
    "where the site belongs to no layer.",
}
NUMBER = {
    "description": "A finite number, or the word for one that JSON cannot write. NaN never occurs "
    "in an estimate.",
    "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}],
}


def with_more(
    known: dict[str, Any], /, without: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """The schema of an object with more properties, and without some."""
    kept = {name: said for name, said in known["properties"].items() if name not in without}
    return object_of({**kept, **more})


# ------------------------------------------------------------------------------
# Results as columns, for a data frame.

_FIRST = ("site", "depth", "view", "form", "quantity")  # who and what, then numbers


def table(result: Any) -> dict[str, list[Any]]:
    """The rows of a result as equally long columns: readings of a profile, changes, layers.

    Args:
        result: A result of this library, another of its records, or several of one kind.

    Returns:
        The fields of the records, numbers as `value, low, high, how, risk`. Readings of a profile
        have a `depth` besides, the order of the layer that is, or applies, the site; one past the
        last for the network's output; None where the site belongs to no layer. A scan has a row
        for each matrix, and a column for each quantity.

    Raises:
        TypeError: If it is no record of this library.

    Example:
        >>> from sigmascope.core.records import Estimate, Profile, Reading
        >>> row = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
        >>> table(Profile(readings=(row,)))["value"]
        [3.0]
    """
    return columns(result)


@by_kind
def columns(result: Any) -> dict[str, list[Any]]:
    """What `table` gives, as the product that a result belongs to has registered it."""
    if not is_record_of_ours(result):
        raise refused(result)
    return row_columns(type(result), (result,))


def row_columns(kind: type, rows: Iterable[Any], **more: list[Any]) -> dict[str, list[Any]]:
    """A column for each field of records of one kind, and more; those that say where come first."""
    rows = tuple(rows)
    found = {column.name: [column.of(row) for row in rows] for column in wide(kind)} | more
    first = [name for name in _FIRST if name in found]
    return {name: found[name] for name in (*first, *(n for n in found if n not in first))}


def has_rows(kind: type, field: str, row: type) -> None:
    """Let the columns of results of a kind be those of the records in one of their fields.

    Args:
        kind: Of results.
        field: Its field.
        row: The kind of record there, whose fields are columns even where there is no record.
    """
    columns.register(lambda found: row_columns(row, getattr(found, field)), kind)


has_rows(Explanations, "senses", Explanation)


# ------------------------------------------------------------------------------
# Any result as text: the one door, behind which each kind says what it looks like.


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a result is shown.

    Attributes:
        width: Columns.
        whole: Whether to list everything.
    """

    width: int = 100
    whole: bool = False


@by_kind
def parts(result: Any, screen: Screen, *beside: Any, **more: Any) -> Iterator[Part]:
    """What a result looks like, from top to bottom; of one that is told by shapes, its fields."""
    if not isinstance(result, Brief):
        raise refused(result)
    table = grid(fold=True)
    record: Any = result  # every class that inherits is a dataclass
    for each in fields(record):
        if each.repr:
            table.add_row(Text(each.name), Text(brief(getattr(record, each.name))))
    yield from (Text(type(result).__name__, "bold"), table)


@parts.register
def _estimate_parts(found: Estimate, _: Screen) -> Iterator[Part]:
    yield f"{measured(found)}  {found.how}"


@door
def text(
    result: Any,
    *beside: Any,
    colour: bool = False,
    width: int = 100,
    whole: bool = False,
    **more: Any,
) -> str:
    """A result as its command prints it.

    Args:
        result: A profile, a finding, a check, a comparison or another result of this library; or
            several of one kind, as `judge` and `check` give them.
        beside: What it is shown with, as the findings of a profile or of a comparison.
        colour: Whether to colour it with escape sequences; never needed to understand it.
        width: Columns of the terminal.
        whole: Whether to list everything: every layer of a deep net, every site not measured.
        more: What it is shown with, by name.

    Returns:
        Lines of at most `width` columns; lines of code are not wrapped.

    Raises:
        TypeError: If it is no result of this library.
    """
    return rendered(
        parts(result, Screen(width, whole), *beside, **more), colour=colour, width=width
    )


def html(result: Any, *beside: Any, width: int = 100, **more: Any) -> str:
    """A result as one small element of HTML, as a notebook shows it.

    Args:
        result: As for `text`.
        beside: As for `text`.
        width: Columns.
        more: As for `text`.
    """
    return rendered_html(parts(result, Screen(width), *beside, **more), width=width)


def grid(*titles: str, right: Collection[str] = (), fold: bool = False) -> Table:
    """An empty table without lines.

    Args:
        titles: Of the columns; without any they come with the rows.
        right: Those that stand to the right, as numbers do.
        fold: Whether cells that are too wide go on in the next line, and are not cut.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(titles))
    for title in titles:
        table.add_column(
            title,
            justify="right" if title in right else "left",
            header_style="dim",
            overflow="fold" if fold else "ellipsis",
        )
    return table


def ruled() -> Table:
    """An empty table with a line under its head."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
    )


def shortlist(many: Sequence[T], most: int, screen: Screen) -> tuple[Sequence[T], str]:
    """As many as are listed, and how many more there are, in words; all where all are wanted."""
    chosen = many if screen.whole else many[:most]
    return chosen, f"… {len(many) - len(chosen)} more" if len(chosen) < len(many) else ""


def some_of(table: Table, many: Sequence[T], most: int, screen: Screen) -> Iterator[T]:
    """Those that are listed, one by one; behind their rows the table says how many more there are.

    Args:
        table: To which whoever goes through them adds the row of each.
        many: All.
        most: So many are listed, unless all are wanted.
        screen: Where they are shown.
    """
    chosen, more = shortlist(many, most, screen)
    yield from chosen
    if more:
        table.add_row(Text(f"{more} (--whole lists them)", "dim"))


def section(title: str, *inside: Part) -> Iterator[Part]:
    """A heading after an empty line, and what stands under it."""
    yield from ("", Text(title, "bold"), *inside)


# ------------------------------------------------------------------------------
# What names mean.


@parts.register
def _explanations_parts(found: Explanations, screen: Screen) -> Iterator[Part]:
    """Each sense under its name."""
    for place, sense in enumerate(found.senses):
        yield from ("",) * (place > 0)
        yield from parts(sense, screen)


@parts.register
def _explanation_parts(sense: Explanation, _: Screen) -> Iterator[Part]:
    """Headings on the left, texts on the right."""
    yield Text.assemble((sense.name, "bold"), f": {sense.kind}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for heading, text in sense.rows:
        grid.add_row(heading, Text(text))
    yield Padding(grid, (0, 0, 0, 2))

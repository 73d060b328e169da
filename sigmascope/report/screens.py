"""Any result as text: the one door, behind which each kind says what it looks like."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sigmascope.guard import door
from sigmascope.report.console import Part, rendered, rendered_html
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.registry import by_kind, refused

T = TypeVar("T")


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
    """What a result looks like, from top to bottom."""
    raise refused(result)


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


def section(title: str, *inside: Part) -> Iterator[Part]:
    """A heading after an empty line, and what stands under it."""
    yield from ("", Text(title, "bold"), *inside)


# ------------------------------------------------------------------------------
# What names mean.


@parts.register
def _explanations(found: Explanations, screen: Screen) -> Iterator[Part]:
    """Each sense under its name."""
    for place, sense in enumerate(found.senses):
        yield from ("",) * (place > 0)
        yield from parts(sense, screen)


@parts.register
def _explanation(sense: Explanation, _: Screen) -> Iterator[Part]:
    """Headings on the left, texts on the right."""
    yield Text.assemble((sense.name, "bold"), f": {sense.kind}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for heading, text in sense.rows:
        grid.add_row(heading, Text(text))
    yield Padding(grid, (0, 0, 0, 2))

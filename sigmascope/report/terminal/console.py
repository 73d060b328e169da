"""Rich renderables as plain or coloured text or HTML, the same on every machine."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.terminal_theme import TerminalTheme

from sigmascope.gate import printable_lines

# What the pages look like by day: their card and ink, and their colours in the place of ANSI's.
_INKS = ((26, 30, 35), (179, 38, 30), (28, 107, 60), (133, 83, 0), (31, 91, 143), (124, 58, 237))
_THEME = TerminalTheme((255, 255, 255), _INKS[0], [*_INKS, (11, 122, 107), (88, 97, 107)])
_CARD = (
    '<pre style="background:#fff;color:#1a1e23;border:1px solid #dfe1e3;border-radius:10px;'
    "padding:1rem 1.25rem;overflow-x:auto;line-height:1.35;font-family:ui-monospace,'SF Mono',"
    "Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace\">{code}</pre>"
)


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be copied, which are not wrapped at any width."""

    lines: str


Part = RenderableType | Code


def rendered(parts: Iterable[Part], *, colour: bool, width: int) -> str:
    """Lines of at most `width` columns, with escape sequences only if `colour`."""
    file = io.StringIO()
    _print(parts, _console(file, colour=colour, width=width))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def rendered_html(parts: Iterable[Part], *, width: int) -> str:
    """The same as one element of HTML that needs nothing beside it."""
    console = _console(io.StringIO(), colour=True, width=width)
    console.record = True
    _print(parts, console)
    return console.export_html(theme=_THEME, code_format=_CARD, inline_styles=True)


def _console(file: io.StringIO, *, colour: bool, width: int) -> Console:
    return Console(
        file=file,
        width=width,
        force_terminal=colour,
        force_jupyter=False,
        no_color=not colour,
        color_system="standard" if colour else None,
        markup=False,  # names of layers are text, whatever brackets they hold
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )


def _print(parts: Iterable[Part], console: Console) -> None:
    for part in parts:
        if isinstance(part, Code):
            console.out(printable_lines(part.lines), highlight=False)
        else:
            console.print(Segments(_harmless(console.render(part))), end="")


def _harmless(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Text that cannot act on a terminal, whatever names and messages are in it."""
    for segment in segments:
        yield Segment(printable_lines(segment.text), segment.style, segment.control)

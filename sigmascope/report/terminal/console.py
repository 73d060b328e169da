"""Rich renderables as plain or coloured text or HTML, the same on every machine."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.terminal_theme import TerminalTheme

from sigmascope.gate import printable_lines

# What the pages look like by day and by night: card, and ink with the colours in place of ANSI's.
_DAY = ("ffffff", ("1a1e23", "b3261e", "1c6b3c", "855300", "1f5b8f", "7c3aed", "0b7a6b", "58616b"))
_NIGHT = (
    "181c22",
    ("e7e9ec", "ff8f86", "7bd19b", "f0bd5a", "86bdf2", "bfa0ff", "4fd1bb", "a3adb8"),
)
_CARD = (
    '<pre style="background:#fff;background:light-dark(#fff,#181c22);color:#1a1e23;'
    "color:light-dark(#1a1e23,#e7e9ec);border:1px solid #88888855;border-radius:10px;"
    "padding:1rem 1.25rem;overflow-x:auto;line-height:1.35;font-family:ui-monospace,'SF Mono',"
    "Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace\">{code}</pre>"
)


def _theme() -> TerminalTheme:
    card, inks = _rgb(_DAY[0]), [_rgb(ink) for ink in _DAY[1]]
    return TerminalTheme(card, inks[0], inks)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[:2], 16), int(colour[2:4], 16), int(colour[4:], 16)


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
    card = console.export_html(theme=_theme(), code_format=_CARD, inline_styles=True)
    return re.sub(r"(?<=olor: )#([0-9a-f]{6})", _by_night_too, card)


def _by_night_too(found: re.Match[str]) -> str:
    """A colour of the day with that of the night, which the page around the card chooses.

    A browser that cannot choose leaves such a colour out, and the ink of the card is read.
    """
    night = _nights().get(found[1])
    return f"light-dark(#{found[1]},#{night})" if night else found[0]


@cache
def _nights() -> dict[str, str]:
    """The colour by night of each by day, full and dimmed."""
    pairs = {}
    for day, night in zip(_DAY[1], _NIGHT[1], strict=True):
        dim = [
            blend_rgb(ColorTriplet(*_rgb(c)), ColorTriplet(*_rgb(on))).hex[1:]
            for c, on in ((day, _DAY[0]), (night, _NIGHT[0]))
        ]
        pairs |= {dim[0]: dim[1], day: night}
    return pairs


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

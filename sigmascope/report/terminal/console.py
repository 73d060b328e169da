"""Rich renderables as plain or coloured text, the same on every machine."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from sigmascope.gate import printable_lines


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be copied, which are not wrapped at any width."""

    lines: str


Part = RenderableType | Code


def rendered(parts: Iterable[Part], *, colour: bool, width: int) -> str:
    """Lines of at most `width` columns, with escape sequences only if `colour`."""
    file = io.StringIO()
    console = Console(
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
    for part in parts:
        if isinstance(part, Code):
            file.write(printable_lines(f"{part.lines}\n"))
            continue
        console.print(Segments(_harmless(console.render(part))), end="")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _harmless(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Text that cannot act on a terminal, whatever names and messages are in it."""
    for segment in segments:
        yield Segment(printable_lines(segment.text), segment.style, segment.control)

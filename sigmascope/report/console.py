"""Rich renderables as plain or coloured text or HTML, the same on every machine."""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from sigmascope.core.guard import printable, printable_lines
from sigmascope.core.records import Estimate

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
    paper, inks = _rgb(_DAY[0]), [_rgb(ink) for ink in _DAY[1]]
    theme = TerminalTheme(paper, inks[0], inks)
    card = console.export_html(theme=theme, code_format=_CARD, inline_styles=True)
    # Beside each colour of the day, full and dimmed, stands that of the night: the page around the
    # card chooses. A browser that cannot leaves both out, and the ink of the card is read.
    nights = {}
    for day, night in zip(_DAY[1], _NIGHT[1], strict=True):
        dim = [
            blend_rgb(ColorTriplet(*_rgb(c)), ColorTriplet(*_rgb(on))).hex[1:]
            for c, on in ((day, _DAY[0]), (night, _NIGHT[0]))
        ]
        nights |= {dim[0]: dim[1], day: night}
    for day, night in nights.items():
        card = card.replace(f"olor: #{day}", f"olor: light-dark(#{day},#{night})")
    return card


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
            # no text acts on a terminal, whatever names and messages are in it
            harmless = (
                Segment(printable_lines(segment.text), segment.style, segment.control)
                for segment in console.render(part)
            )
            console.print(Segments(harmless), end="")


# ------------------------------------------------------------------------------
# Numbers as a reader wants them: few digits, and the interval where it says something.


NEGLIGIBLE = 1e-3  # relative width of an interval below which the digits shown say it all


def compact(number: float, *, digits: int = 4) -> str:
    """`number` with a few significant digits.

    Example:
        >>> [compact(x) for x in (0.0, 64.0, 1.02345, 123456.0, 5.1e-11, math.inf)]
        ['0', '64', '1.023', '1.235e5', '5.1e-11', '∞']
    """
    if not math.isfinite(number):
        return "nan" if math.isnan(number) else "∞" if number > 0 else "-∞"
    if number == round(number) and abs(number) < 1e5:
        return f"{number:.0f}"
    if 1e-3 <= abs(number) < 1e5:
        return f"{number:.{digits}g}" if abs(number) < 10**digits else f"{number:.0f}"
    mantissa, _, exponent = f"{number:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def matters(estimate: Estimate) -> bool:
    """Whether the interval is wide enough to be shown."""
    width = estimate.high - estimate.low
    return not width <= NEGLIGIBLE * abs(estimate.value)


def measured(estimate: Estimate) -> str:
    """The value, with its interval where it matters.

    Example:
        >>> measured(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        '12.3 [11.9, 12.8]'
    """
    if not matters(estimate):
        return compact(estimate.value)
    value, low, high = (compact(x, digits=3) for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def counted(estimate: Estimate) -> str:
    """A count, with both ends where they differ; for tables.

    Example:
        >>> counted(Estimate(3, 3, 7, "gram")), counted(Estimate.exactly(8))
        ('3–7', '8')
    """
    ends = compact(estimate.low), compact(estimate.high)
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def within(estimate: Estimate) -> str:
    """The value, with the half-width of its interval in per cent where it matters; for tables.

    Example:
        >>> within(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        '12.3 ±5%'
    """
    gap = max(estimate.high - estimate.value, estimate.value - estimate.low)
    if not matters(estimate) or not gap < 10 * abs(estimate.value):
        return measured(estimate)
    half = 100 * gap / abs(estimate.value)
    per_cent = math.ceil(half) if half > 1 else math.ceil(100 * half) / 100
    return f"{compact(estimate.value, digits=3)} ±{per_cent:g}%"


def amount(count: int) -> str:
    """A whole number, short.

    Example:
        >>> [amount(n) for n in (0, 9_408, 14_500_000, 3_200_000_000)]
        ['0', '9.41k', '14.5M', '3.2G']
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{compact(count / 10**power, digits=3)}{letter}"
    return str(count)


def sized(count: int) -> str:
    """Bytes with a unit.

    Example:
        >>> [sized(n) for n in (512, 14_500_000, 3_200_000_000)]
        ['512 bytes', '14.5 MB', '3.2 GB']
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{compact(count / 10**power, digits=3)} {unit}"
    return f"{count} bytes"


def lasting(seconds: float) -> str:
    """A time with a unit.

    Example:
        >>> [lasting(t) for t in (1.26, 90.0, 5400.0, 200000.0)]
        ['1.3 seconds', '1.5 minutes', '90 minutes', '56 hours']
    """
    if seconds < 60:
        return f"{compact(seconds, digits=2)} seconds"
    if seconds < 7200:
        return f"{compact(seconds / 60, digits=2)} minutes"
    return f"{compact(seconds / 3600, digits=2)} hours"


def risk(estimate: Estimate) -> str:
    """The chance that the interval misses, in words; empty where there is none.

    Example:
        >>> risk(Estimate(12.3, 11.9, 12.8, "sampled", 0.05))
        'the interval misses with chance at most 0.05'
    """
    if estimate.risk == 0:
        return ""
    return f"the interval misses with chance at most {compact(estimate.risk, digits=2)}"


# ------------------------------------------------------------------------------
# Names of layers, cut to a width.


def shortened(name: str, width: int) -> str:
    """`name` with its middle left out where it is longer than `width`.

    Example:
        >>> shortened("encoder.layers.11.attention.query", 20)
        'encoder.l…tion.query'
    """
    if len(name) <= width:
        return name
    tail = width // 2
    return f"{name[: width - tail - 1]}…{name[len(name) - tail :]}"


def label(name: str, width: int) -> Text:
    """A name from outside as a cell of a table: harmless, in one line, and no wider than that."""
    return Text(shortened(printable(name), width))


# ------------------------------------------------------------------------------
# A curve in one line of text.


_BLOCKS = "▁▂▃▄▅▆▇█"


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a log scale shows `values` better: all positive, the largest 30 times the least."""
    return bool(values) and min(values) > 0 and max(values) >= 30 * min(values)


def sparkline(values: Sequence[float | None], *, width: int) -> str:
    """`values` as at most `width` blocks, on a log scale where they span decades.

    Equal values draw a line in the middle. Where there are more values than blocks, each block
    stands for the mean of its share. What is not finite is drawn as `!`, what is None as a gap.

    Example:
        >>> sparkline([1.0, 2.0, 3.0, 4.0], width=8)
        '▁▃▆█'
    """
    finite = [v for v in values if v is not None and math.isfinite(v)]
    scale = math.log if spans_decades(finite) else float
    scaled = [v if v is None else scale(v) if math.isfinite(v) else math.nan for v in values]
    count = min(len(scaled), width)
    edges = [i * len(scaled) // count for i in range(count + 1)] if count else [0]
    levels = []
    for start, end in pairwise(edges):
        some = [v for v in scaled[start:end] if v is not None]
        # a nan makes the mean nan, for it must not be averaged away
        levels.append(sum(some) / len(some) if some else None)
    known = [v for v in levels if v is not None and not math.isnan(v)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    level = high - low <= 1e-9 * max(abs(low), abs(high))
    blocks: list[str] = []
    for v in levels:
        if v is None or math.isnan(v):
            blocks.append(" " if v is None else "!")
        else:
            place = 3 if level else round((v - low) / (high - low) * (len(_BLOCKS) - 1))
            blocks.append(_BLOCKS[place])
    return "".join(blocks)

"""Results as figures for a paper: what those of all products share.

Drawn with matplotlib, which is imported when the first figure is, and with none of its state: no
window, no `pyplot`, no setting of the user's is touched. A figure is as wide as a column of the
page that it is meant for. Every number stands with its interval; an end that is infinite is an
arrow. Colours are those of Okabe & Ito (2008), which colour-blind readers tell apart; names from
outside are never taken for mathematics; letters stay letters in PDF and SVG.
"""

import io
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, cast

from sigmascope.core.guard import Refusal, WrongKind, door, nearest, printable
from sigmascope.core.records import Estimate
from sigmascope.report.console import shortened, spans_decades
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.results import by_kind, columns

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
GREY = "#999999"
TONES = {"error": "#D55E00", "warning": "#E69F00", "note": "#56B4E9"}  # of findings
MARKS = "os^Dv<>P"
COLUMN = 6.5  # inches that a figure is wide: the text of a page; a column of two has 3.3
NARROW, WIDE = 1.5, 20.0
PANEL = 2.1  # inches that a panel is wide, at least
ROW = 0.2  # inches that a row of intervals takes
ROWS = 40  # of a figure of intervals; more are counted
TICKS = 12  # names on an axis; more are numbers
STYLE: Final = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "legend.frameon": False,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "sigmascope",  # the same file of the same result
    "text.usetex": False,
    "path.simplify": True,
}


@door
def plot(result: Any, *beside: Any, width: float = COLUMN, **more: Any) -> Any:
    """A result as a figure of matplotlib, fit for a paper.

    Args:
        result: Of this library; or several of one kind, as `judge` and `check` give them.
        beside: What it is shown with, as the findings of a profile.
        width: In inches: 6.5 for the text of a page, 3.3 for one of two columns.
        more: What is drawn: `quantities=` of a profile, a scan or a run, `spectra=` of a profile.

    Returns:
        A `matplotlib.figure.Figure`, which a notebook shows; `.savefig("figure.pdf")` writes it,
        `.axes` are its panels. Nobody else holds it: no window is opened, none must be closed.

    Raises:
        Refusal: If nothing of the result could be drawn, or the width is none.
        TypeError: If it is no result of this library.
        ImportError: If matplotlib is not installed.
    """
    if not NARROW <= width <= WIDE:
        raise Refusal(
            f"`width` must be inches from {NARROW:g} to {WIDE:g}, got {width}. Take 6.5 for the "
            "text of a page, 3.3 for a column."
        )
    with style():
        figure = _kind()(figsize=(width, 2.0), layout="constrained")
        drawn(result, Sheet(figure, width), *beside, **more)
    return figure


@contextmanager
def style() -> Iterator[None]:
    """How figures look, while the block runs; the user's own settings are back behind it."""
    try:
        import matplotlib as mpl
    except ImportError as missing:
        raise ImportError(
            "A figure needs matplotlib: pip install matplotlib, or 'sigmascope[figures]'. Without "
            "it, `sigmascope.report.table` gives the numbers as lists, and the pages of the "
            "commands (`--html`) need nothing."
        ) from missing
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", STYLE))
        yield


@cache
def _kind() -> type:
    from matplotlib.figure import Figure

    class ResultFigure(Figure):
        """A figure that is written in our style whenever it is, and shows in a notebook."""

        def savefig(self, *args: Any, **more: Any) -> None:
            with style():
                super().savefig(*args, **more)

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=150)
            return file.getvalue()

    return ResultFigure


class Sheet:
    """An empty figure, and how a result divides it.

    Args:
        figure: Of matplotlib.
        width: In inches.
    """

    def __init__(self, figure: Any, width: float) -> None:
        self.figure, self.width = figure, width

    def panels(self, count: int, *, height: float = 1.5, across: int | None = None) -> list[Any]:
        """So many axes of this height in inches, as many beside one another as there is room."""
        across = min(count, across or max(1, int(self.width / PANEL)))
        down = -(-count // across)
        self.figure.set_size_inches(self.width, down * height + 0.3)
        return [self.figure.add_subplot(down, across, i + 1) for i in range(count)]

    def rows(self, count: int) -> Any:
        """One pair of axes with room for so many rows of text."""
        self.figure.set_size_inches(self.width, 0.7 + ROW * max(count, 2))
        return self.figure.add_subplot()


@by_kind
def drawn(result: Any, sheet: Sheet, *beside: Any, **more: Any) -> None:
    """Draw a result; what no product has registered more for is its rows, each with its interval.

    Raises:
        Refusal: If it holds no number with an interval.
    """
    require_known(more)
    held = columns(result)
    if not {"value", "low", "high"} <= held.keys():
        raise Refusal(
            f"`{type(result).__name__}` holds no numbers that could be drawn; its words are what "
            "`print` shows. Plot the result that they speak of."
        )
    words = [held[name] for name in ("theorem", "name", "site", "quantity") if name in held]
    rows = []
    for i, value in enumerate(held["value"]):
        if value is not None:
            label = " · ".join(str(w[i]) for w in words if w[i])
            ends = held["low"][i], held["high"][i]
            rows.append((label, Estimate(value, *ends, "as it stands in the result")))
    forest(sheet, rows)


def require_known(more: Mapping[str, Any], *known: str) -> None:
    """Raise if something else is asked for than is known of this kind of result."""
    for name in more:
        if name not in known:
            has = f"it takes {', '.join(f'`{k}=`' for k in known)}" if known else "it takes none"
            raise WrongKind(f"`{name}=` says nothing of this figure: {has} besides `width=`.")


def asked_for(quantities: str | Iterable[str], known: Collection[str], where: str) -> list[str]:
    """The names that were asked for, one or several; refused if one is not among the known."""
    names = [quantities] if isinstance(quantities, str) else list(quantities)
    for name in names:
        if name not in known:
            raise Refusal(
                f"`{name}` was not read {where}.{nearest(name, known)} There are "
                f"{', '.join(known) or 'none'}."
            )
    return names


@drawn.register
def _explained(found: Explanation | Explanations, sheet: Sheet, *_: Any, **__: Any) -> None:
    raise Refusal(
        f"`{type(found).__name__}` holds words and no number. Plot a result in which the name "
        "stands, such as a profile."
    )


# ------------------------------------------------------------------------------
# Rows of intervals.


def forest(
    sheet: Sheet,
    rows: Sequence[tuple[str, Estimate | None]],
    *,
    against: Sequence[Estimate | None] = (),
    tones: Sequence[str] = (),
    label: str = "",
    names: tuple[str, str] = ("", ""),
) -> Any:
    """A line for each number with its interval, from top to bottom.

    Args:
        sheet: To draw on.
        rows: What each is, and its number; without one it is a heading of those below it.
        against: A second number for each, as what comes after; joined to the first.
        tones: A colour for each.
        label: Of the axis of numbers.
        names: Of the two numbers.

    Returns:
        The axes.

    Raises:
        Refusal: If there is no number.
    """
    numbers = [e.value for e in (*(e for _, e in rows), *against) if e is not None]
    if not numbers:
        raise Refusal("There is no number to draw: the result holds none. `print` shows its words.")
    more = len(rows) - ROWS
    rows = rows[:ROWS]
    ax = sheet.rows(len(rows) + (more > 0))
    scaled(ax, numbers, axis="x")
    across = ax.get_yaxis_transform()  # the first coordinate as a share of the axis
    for place, (_, estimate) in enumerate(rows):
        tone = tones[place] if tones else COLOURS[0]
        other = against[place] if against else None
        if estimate is None:
            continue
        if other is not None:
            if math.isfinite(estimate.value) and math.isfinite(other.value):
                ends = [estimate.value, other.value]
                ax.plot(ends, [place, place], color="#cccccc", linewidth=0.8, zorder=1)
            _interval(ax, place, other, tone if tones else COLOURS[1], "s", hollow=bool(tones))
        _interval(ax, place, estimate, tone, "o")
    ax.set_ylim(len(rows) - 0.5 + (more > 0), -0.5)
    width = max(12, int(sheet.width * 7))
    ax.set_yticks(range(len(rows)), [told(shortened(name, width)) for name, _ in rows])
    plain(ax.get_yticklabels())
    for text, (_, estimate) in zip(ax.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if estimate is None else "normal")
    ax.tick_params("y", length=0)
    if more > 0:
        ax.text(0, len(rows), f"… {more} more", transform=across, color=GREY, va="center")
    ax.set_xlabel(told(label), parse_math=False)
    if against and any(names):
        for name, mark, colour in zip(
            names, "os", (tones[0], tones[0]) if tones else COLOURS[:2], strict=True
        ):
            ax.plot([], [], mark, color=colour, label=told(name), linestyle="")
        legend(ax, outside=True)
    return ax


def _interval(
    ax: Any, place: float, estimate: Estimate, colour: str, mark: str, *, hollow: bool = False
) -> None:
    """One number along the first axis: a mark, its interval, an arrow where an end is infinite."""
    edge = {"color": colour, "clip_on": False, "transform": ax.get_yaxis_transform()}
    if not math.isfinite(estimate.value):
        up = estimate.value > 0
        ax.plot(1.0 if up else 0.0, place, ">" if up else "<", **edge)
        return
    ends = [e if math.isfinite(e) else estimate.value for e in (estimate.low, estimate.high)]
    ax.plot(ends, [place, place], color=colour, linewidth=1.0, solid_capstyle="butt")
    for end, at, towards in ((estimate.low, 0.0, "<"), (estimate.high, 1.0, ">")):
        if not math.isfinite(end):
            ax.plot(at, place, towards, markersize=2.5, **edge)
    face = {"markerfacecolor": "white"} if hollow else {}
    ax.plot(estimate.value, place, mark, color=colour, **face)


# ------------------------------------------------------------------------------
# Lines over layers, matrices or steps.


def line(
    ax: Any,
    xs: Sequence[float],
    estimates: Sequence[Estimate | None],
    *,
    colour: Any = COLOURS[0],
    name: str = "",
    mark: str = "o",
) -> None:
    """Numbers in their order with the band of their intervals; a gap where there is none."""
    finite = lambda v: v if math.isfinite(v) else math.nan
    blank = lambda pick: [math.nan if e is None else finite(pick(e)) for e in estimates]
    values = blank(lambda e: e.value)
    lows, highs = blank(lambda e: e.low), blank(lambda e: e.high)
    few = sum(map(math.isfinite, values)) <= 60
    named = told(name) or None
    ax.plot(xs, values, color=colour, marker=mark if few else "", label=named, markersize=2.5)
    ax.fill_between(xs, lows, highs, color=colour, alpha=0.25, linewidth=0)


def scaled(ax: Any, values: Sequence[float], *, axis: str = "y") -> None:
    """Logarithmic where finite numbers span decades; with zeros or both signs, linear near zero."""
    finite = [v for v in values if math.isfinite(v)]
    sizes = [abs(v) for v in finite if v]
    if len(sizes) < 2 or not spans_decades(sizes):
        return
    set_scale = ax.set_yscale if axis == "y" else ax.set_xscale
    if min(finite) > 0:
        set_scale("log")
    else:
        set_scale("symlog", linthresh=max(min(sizes), max(sizes) * 1e-9))


def places(ax: Any, names: Sequence[str], *, label: str = "layer") -> None:
    """What stands along the first axis: names where they are few and short, else numbers."""
    short = [told(shortened(name, 18)) for name in names]
    if len(names) <= TICKS and sum(map(len, short)) <= 60:
        turned = sum(map(len, short)) > 24
        how = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if turned else {}
        ax.set_xticks(range(len(names)), short, **how)
        plain(ax.get_xticklabels())
    else:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel(told(label), parse_math=False)


def band(ax: Any, low: float, high: float) -> None:
    """What is usual, behind everything; the axes stay as they are."""
    before = ax.get_ylim()
    if math.isfinite(low) and math.isfinite(high) and low < before[1] and high > before[0]:
        ax.axhspan(max(low, min(before)), min(high, max(before)), color="#eeeeee", zorder=0)
    ax.set_ylim(before)


def heading(ax: Any, words: str) -> None:
    """What a panel shows."""
    ax.set_title(told(words), loc="left", parse_math=False)


def legend(ax: Any, *, outside: bool = False) -> None:
    """Names of what is drawn, none of which is mathematics; `outside`: below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    if outside:
        room = max(1, int(ax.figure.get_figwidth() * 14 / (3 + max(map(len, labels), default=1))))
        how = {"loc": "outside lower center", "ncols": min(len(labels), room)}
        box = ax.figure.legend(handles, labels, **how)
    else:
        box = ax.legend(handles, labels)
    plain(box.get_texts())


def told(words: str) -> str:
    """Words from outside, as a figure can hold them."""
    return printable(str(words))


def plain(texts: Collection[Any]) -> None:
    """Take none of these for mathematics."""
    for text in texts:
        text.set_parse_math(False)

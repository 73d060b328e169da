"""Every view and every quantity that can be read, declared once.

What a quantity is, in which view it is read, which values it can take, how it is drawn, what is
healthy and who defined it stand in `quantities.toml`. Rules, tables, the page and the documentation
look them up here; a profile takes no reading of a quantity that is not in the table. Nothing heavy
is imported, so that the command line starts at once.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

View = Literal[
    "representations",
    "weights",
    "features",
    "gradients",
    "setup",
    "balances",
    "bottleneck",
    "conditioning",
    "training",
    "scan",
    "watch",
]
ALL: Final[tuple[View, ...]] = ("representations", "weights", "features", "gradients", "setup")
TRAINING: Final[View] = "training"  # read of training, not of a model: `diagnosis` adds it
SCAN: Final[View] = "scan"  # read of checkpoints, without a model
WATCH: Final[View] = "watch"  # read while a model trains, of its own batches
EVERY: Final[tuple[View, ...]] = tuple(  # of a model, `ALL` first
    v for v in get_args(View) if v not in (TRAINING, SCAN, WATCH)
)

FILE: Final = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that can be measured, wherever it is read.

    Attributes:
        name: As readings and files have it.
        views: In which it is read.
        says: What it is, in one sentence without its full stop.
        symbol: Its formula, in LaTeX; empty where words are plainer.
        least: No reading is below it.
        most: No reading is above it.
        range: The values it takes, in words; made from the two ends if not given.
        unit: Of a reading; empty for a pure number.
        scale: On which axis it is drawn.
        family: Panel of the page that it shares with others in its unit; empty for one of its own.
        column: Heading in the terminal's table of layers; empty if it has no column there.
        compared: The end of the network at which it tells most of a remedy, `"first"` or `"last"`;
            empty if remedies are not compared by it.
        healthy: What is usual where training works, with where that was measured.
        source: Author and year; empty where it is arithmetic.
    """

    name: str
    views: tuple[View, ...]
    says: str
    symbol: str = ""
    least: float = 0.0
    most: float = math.inf
    range: str = ""
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"
    family: str = ""
    column: str = ""
    compared: Literal["first", "last", ""] = ""
    healthy: str = ""
    source: str = ""


def _rows() -> Iterator[Quantity]:
    for name, row in tomllib.loads(FILE.read_text(encoding="utf-8")).items():
        fields: dict[str, Any] = {**row, "views": tuple(row["views"])}
        yield Quantity(name, range=fields.pop("range", "") or _range(fields), **fields)


def _range(row: Mapping[str, Any]) -> str:
    least, most = row.get("least", 0.0), row.get("most", math.inf)
    if most < math.inf:
        return f"{least:g} to {most:g}" if least < most else f"{least:g}"
    return f"≥ {least:g}" if least > -math.inf else "any"


_own: ContextVar[tuple[Quantity, ...]] = ContextVar("quantities of the user", default=())


def quantities() -> Mapping[str, Quantity]:
    """Every quantity by name: those of one view together, the most telling first."""
    return _table(_own.get())


@cache
def _table(own: tuple[Quantity, ...]) -> Mapping[str, Quantity]:
    return MappingProxyType({q.name: q for q in (*_rows(), *own)})


@contextmanager
def with_own(*own: Quantity) -> Iterator[None]:
    """Within the block the table has quantities of your own too, as docs/extending.md shows.

    Args:
        own: Their rows.

    Raises:
        ValueError: If one has the name of another, or names no view or one that there is not.
    """
    for q in own:
        if q.name in quantities():
            raise ValueError(f"There is a quantity {q.name!r} already: name yours otherwise.")
        if not q.views or not set(q.views) <= set(get_args(View)):
            views = ", ".join(get_args(View))
            raise ValueError(f"`views` of {q.name!r} must name some of {views}, got {q.views}.")
    token = _own.set((*_own.get(), *own))
    try:
        yield
    finally:
        _own.reset(token)


def quantity(name: str) -> Quantity:
    """The quantity of that name.

    Args:
        name: As in the table.

    Raises:
        ValueError: If there is none; with the name that is nearest.
    """
    known = quantities()
    if name not in known:
        close = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"A quantity must be one of those in docs/measurements.md, got {name!r}.{hint}"
        )
    return known[name]


def in_view(view: View) -> tuple[Quantity, ...]:
    """The quantities of a view, in the order of the table."""
    return tuple(q for q in quantities().values() if view in q.views)


def columns() -> tuple[Quantity, ...]:
    """Those with a column in the terminal's table of layers, the most telling first."""
    return tuple(q for q in quantities().values() if q.column)


def families() -> Mapping[str, tuple[str, ...]]:
    """Names of the quantities that share a panel, by the panel's title."""
    found: dict[str, tuple[str, ...]] = {}
    for q in quantities().values():
        if q.family:
            found[q.family] = (*found.get(q.family, ()), q.name)
    return MappingProxyType(found)

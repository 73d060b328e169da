"""What a run has read so far, by columns, as a page draws it."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sigmascope.quantities import quantities
from sigmascope.records.encoding import encoded
from sigmascope.report.pages.packing import (
    packed_doubles,
    packed_numbers,
    packed_places,
    packed_spectrum,
)
from sigmascope.store import Fresh
from sigmascope.watching import alarm_spans

POINTS = 60_000  # of a panel, as many as a screen draws in a blink
LEAST, MOST = 128, 1024  # of one curve
ALARMS = 200  # listed, the latest
SPECTRA = 200  # of one matrix, evenly over time
_MEANS = ("says", "unit", "scale", "healthy", "source")

PanelKey = tuple[str, str, str]  # quantity, view, form


class Panel:
    """One quantity at every place over the steps, in the order in which it was filed."""

    def __init__(self) -> None:
        self.series: array[int] = array("I")
        self.steps: array[float] = array("d")
        self.numbers: array[float] = array("d")  # value, low, high of each
        self.sites: set[int] = set()

    def add(self, series: int, step: int, numbers: tuple[float, float, float]) -> None:
        """Append one reading."""
        self.series.append(series)
        self.steps.append(step)
        self.numbers.extend(numbers)
        self.sites.add(series)

    def form(self, after: int = 0) -> dict[str, Any]:
        """Readings as packed columns.

        Args:
            after: How many of them the page has. With 0 it gets all, each curve thinned to what a
                screen shows: the least and the largest of as many neighbours as there are too
                many, its first and its last.
        """
        series = np.frombuffer(self.series, np.uint32)[after:].copy()
        steps = np.frombuffer(self.steps, float)[after:].copy()
        numbers = np.frombuffer(self.numbers, float).reshape(-1, 3)[after:].copy()
        if not after:
            most = max(LEAST, min(MOST, POINTS // max(1, len(self.sites))))
            kept = thinned(series, steps, numbers[:, 0], most)
            series, steps, numbers = series[kept], steps[kept], numbers[kept]
        grid, at = np.unique(steps, return_inverse=True)
        return {
            "after": after,
            "rows": len(self.series),
            "count": len(series),
            "series": packed_places(series),
            "grid": packed_doubles(grid),
            "at": packed_places(at.ravel()),
            **packed_numbers(numbers),
        }


def thinned(series: np.ndarray, steps: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """Which readings to draw: places in the order of series and steps.

    Of one that was filed again the last counts; of a curve of more than `most` readings the least
    and the largest of each few neighbours are kept, and both ends.
    """
    order = np.lexsort((steps, series))  # stable: what was filed later stands later
    s, t = series[order], steps[order]
    last = np.r_[(s[1:] != s[:-1]) | (t[1:] != t[:-1]), True] if len(s) else np.zeros(0, bool)
    order = order[last]
    if not len(order):
        return order
    s, v = series[order], values[order]
    starts = np.flatnonzero(np.r_[True, s[1:] != s[:-1]])
    counts = np.diff(np.r_[starts, len(s)])
    place = np.arange(len(s)) - np.repeat(starts, counts)
    few = np.repeat(np.maximum(1, -(-2 * counts // most)), counts)  # neighbours in one group
    whole = np.repeat(counts <= most, counts)
    new = (place == 0) | (place % few == 0)
    first = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    keep = whole | (place == 0) | np.r_[s[1:] != s[:-1], True]
    for extreme in (np.minimum, np.maximum):
        equal = v == extreme.reduceat(v, first)[group]
        where = np.where(equal, np.arange(len(v)), len(v))
        found = np.minimum.reduceat(where, first)
        keep[found[found < len(v)]] = True
    return order[keep]


@dataclass(slots=True)
class History:
    """A run as far as it was read.

    Attributes:
        name: Of its file.
        rows: How many rows of all tables were read.
        step: The last step; None before the first.
        time: When it was committed, as ISO 8601.
        panels: Readings by what is read.
        sites: Each place with its number, in the order in which they came.
    """

    name: str
    rows: int = 0
    step: int | None = None
    time: str = ""
    panels: dict[PanelKey, Panel] = field(default_factory=dict)
    sites: dict[str, int] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)
    skipped: dict[tuple[str, str, str], int] = field(default_factory=dict)
    spectra: dict[tuple[str, str, str], list[list[Any]]] = field(default_factory=dict)
    findings: list[Any] = field(default_factory=list)

    def take(self, fresh: Fresh) -> None:
        """Add what is new in the file.

        Raises:
            Damaged: If a finding cannot be read; nothing was added then.
        """
        self.findings += fresh.records("findings")
        for step, _, site, view, form, quantity, *numbers, _how, _risk in fresh.rows.get(
            "readings", ()
        ):
            panel = self.panels.setdefault((quantity, view, form), Panel())
            panel.add(self._site(site), step, tuple(numbers))
        for step, _, *cells in fresh.rows.get("spectra", ()):
            self._spectrum(step, cells)
        self.about |= {name: value for _, _, name, value in fresh.rows.get("environment", ())}
        for _, _, site, _kind, depth, _parameters in fresh.rows.get("layers", ()):
            self.layers[site] = depth
        for step, _, *cells in fresh.rows.get("skipped", ()):
            self.skipped.setdefault(tuple(cells), step)
        for cells in fresh.rows.values():
            self.rows += len(cells)
            self.step = max(cells[-1][0], cells[-1][0] if self.step is None else self.step)
            self.time = max(self.time, cells[-1][1])

    def state(self) -> dict[str, Any]:
        """All but the numbers."""
        spans = alarm_spans(self.findings)[-ALARMS:]
        return {
            **{name: getattr(self, name) for name in ("name", "rows", "step", "time", "about")},
            "sites": list(self.sites),
            "depths": [self.layers.get(site) for site in self.sites],
            "panels": [
                {"quantity": q, "view": view, "form": form, "rows": len(panel.series)}
                for (q, view, form), panel in self.panels.items()
            ],
            "meanings": {q: _meaning(q) for q, *_ in self.panels},
            "spectra": [
                {"site": site, "view": view, "form": form, "rows": len(found)}
                for (site, view, form), found in self.spectra.items()
            ],
            "alarms": [{"begin": s.begin, "end": s.end, **encoded(s.finding)} for s in spans],
            "skipped": [[*cells, step] for cells, step in self.skipped.items()],
        }

    def numbers(self, place: int, after: int = 0) -> dict[str, Any]:
        """The readings of a panel by its place in `state`."""
        return [*self.panels.values()][place].form(after)

    def scrubbed(self, place: int) -> list[list[Any]]:
        """Spectra of a matrix by its place in `state`: step, size, count, zeros, values."""
        found = [*self.spectra.values()][place]
        if len(found) <= SPECTRA:
            return found
        at = np.linspace(0, len(found) - 1, SPECTRA).round().astype(int)
        return [found[i] for i in at]

    def _site(self, site: str) -> int:
        return self.sites.setdefault(site, len(self.sites))

    def _spectrum(self, step: int, cells: list[Any]) -> None:
        site, view, form, rows, cols, _how, _risk, sigma, *_ = cells
        values = torch.from_numpy(np.frombuffer(sigma, "<f8").astype(float))
        one = [step, [rows, cols], len(values), int((values == 0).sum()), packed_spectrum(values)]
        found = self.spectra.setdefault((site, view, form), [])
        found[:] = [other for other in found if other[0] < step] if _again(found, step) else found
        found.append(one)


def names(paths: Sequence[Path]) -> list[str]:
    """What a page calls run files: by their names, or whole paths where these are the same."""
    short = [path.name for path in paths]
    return short if len({*short}) == len(short) else [str(path) for path in paths]


def _again(found: list[list[Any]], step: int) -> bool:
    """Whether a step was filed before, as after a restart."""
    return bool(found) and found[-1][0] >= step


def _meaning(quantity: str) -> Mapping[str, str]:
    known = quantities().get(quantity)
    return {} if known is None else {name: getattr(known, name) for name in _MEANS}

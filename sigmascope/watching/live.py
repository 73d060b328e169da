"""Run files as a page that follows them, and as a file."""

import errno
import json
import os
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import torch

from sigmascope.core.guard import Closing, Refusal
from sigmascope.core.quantities import quantities
from sigmascope.core.store import Fresh, Position, Replaced, since
from sigmascope.report.pages import (
    legible,
    packed_doubles,
    packed_numbers,
    packed_places,
    packed_spectrum,
)
from sigmascope.watching import alarm_spans
from sigmascope.watching.page import Told, key_of, live_text, pieces, run_page

__all__ = ["Feed", "History", "Server", "history", "written"]

# ------------------------------------------------------------------------------
# What a run has read so far, by columns, as a page draws it.


POINTS = 60_000  # of a panel, as many as a screen draws in a blink
LEAST, MOST = 128, 1024  # of one curve
ALARMS = 200  # listed, the latest
SPECTRA = 200  # of one matrix, evenly over time

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
            panel.add(self.sites.setdefault(site, len(self.sites)), step, tuple(numbers))
        for step, _, site, view, form, rows, cols, _how, _risk, sigma, *_ in fresh.rows.get(
            "spectra", ()
        ):
            values = torch.from_numpy(np.frombuffer(sigma, "<f8").astype(float))
            found = self.spectra.setdefault((site, view, form), [])
            if found and found[-1][0] >= step:  # it was filed before, as after a restart
                found[:] = [other for other in found if other[0] < step]
            found.append([step, [rows, cols], len(values), packed_spectrum(values)])
        self.about |= {name: value for _, _, name, value in fresh.rows.get("environment", ())}
        for _, _, site, _kind, depth, *_ in fresh.rows.get("layers", ()):
            self.layers[site] = depth
        for step, _, *cells in fresh.rows.get("skipped", ()):
            self.skipped.setdefault(tuple(cells), step)
        for cells in fresh.rows.values():
            self.rows += len(cells)
            self.step = max(cells[-1][0], cells[-1][0] if self.step is None else self.step)
            self.time = max(self.time, cells[-1][1])

    def state(self) -> dict[str, Any]:
        """All that the scripts need to know but the numbers."""
        spans = alarm_spans(self.findings)[-ALARMS:]
        # looked at first: the gradient norm, or what is read most; last the loss
        usual = lambda key: (
            key[0] == "gradient norm",
            key[0] != "loss",
            len(self.panels[key].series),
        )
        panels = []
        for key, panel in self.panels.items():
            quantity, _, form = key
            known, means = quantities().get(quantity), ""
            if known:
                says = known.says[:1].upper() + known.says[1:]
                unit = known.unit and f"Unit: {known.unit}"
                healthy = known.healthy and f"Usual: {known.healthy}"
                means = " ".join(f"{part}." for part in (says, unit, healthy, known.source) if part)
            panels.append(
                {
                    "key": key_of(*key),
                    "quantity": quantity,
                    "form": form,
                    "rows": len(panel.series),
                    "title": _panel_title(*key),
                    "unit": known.unit if known else "",
                    "log": known is not None and known.scale == "log",
                    "means": means,
                }
            )
        return {
            **{"name": self.name, "step": self.step},
            "sites": list(self.sites),
            "ranks": [self._rank(site, i) for site, i in self.sites.items()],
            "panels": panels,
            "first": key_of(*max(self.panels, key=usual)) if self.panels else None,
            "spectra": [
                {"key": key_of(*key), "site": key[0], "rows": len(found)}
                for key, found in self.spectra.items()
            ],
            # of what they are read; no quantity for those that are of all
            "alarms": [
                {
                    **{"begin": s.begin, "severity": s.finding.severity},
                    "quantities": sorted({r.quantity for r in s.finding.evidence}),
                }
                for s in spans
            ],
        }

    def _rank(self, site: str, place: int) -> int:
        """Where a place stands: by its depth, or after all layers; what is no layer last."""
        return self.layers.get(site, 10**6 + place) if site[:1] != "(" else 10**9 + place

    def told(self, *, note: str = "", trouble: str = "", reading: bool = False) -> Told:
        """What is said of the run above its curves.

        Args:
            note: What became of the file.
            trouble: What is wrong with it.
            reading: Whether more of it is left.
        """
        losses = [(form, panel) for (q, _, form), panel in self.panels.items() if q == "loss"]
        panel = next(
            (panel for form, panel in losses if not form), losses[0][1] if losses else None
        )
        layers = sum(site in self.layers for site in self.sites)
        order = lambda key: self._rank(key[0], self.sites.get(key[0], len(self.sites)))
        return Told(
            **{name: getattr(self, name) for name in ("name", "step", "time", "rows")},
            about=dict(self.about),  # as it is now: the history goes on
            places=layers or sum(not site.startswith("(") for site in self.sites),
            layers=layers > 0,
            loss=(panel.steps[-1], panel.numbers[-3]) if panel else None,
            sites=frozenset(self.sites),
            alarms=alarm_spans(self.findings)[-ALARMS:],
            skipped=dict(self.skipped),
            note=note,
            trouble=trouble,
            reading=reading,
            panels={key_of(*key): _panel_title(*key) for key in self.panels},
            spectra={
                key_of(*key): (key[0], " ".join(key[1:]).strip())
                for key in sorted(self.spectra, key=order)
            },
        )

    def numbers(self, place: int, after: int = 0) -> dict[str, Any]:
        """The readings of a panel by its place in `state`."""
        return [*self.panels.values()][place].form(after)

    def scrubbed(self, place: int) -> list[list[Any]]:
        """Spectra of a matrix by its place in `state`: step, size, count, values."""
        found = [*self.spectra.values()][place]
        if len(found) <= SPECTRA:
            return found
        at = np.linspace(0, len(found) - 1, SPECTRA).round().astype(int)
        return [found[i] for i in at]


def names(paths: Sequence[Path]) -> list[str]:
    """What a page calls run files: by their names, or whole paths where these are the same."""
    short = [path.name for path in paths]
    return short if len({*short}) == len(short) else [str(path) for path in paths]


def _panel_title(quantity: str, view: str, form: str) -> str:
    """Panels of one quantity are told apart by form and view."""
    other = ", ".join(filter(None, (form, "" if view == "watch" else view)))
    return f"{quantity} ({other})" if other else quantity


# ------------------------------------------------------------------------------
# A run file that is followed, and what is said of it when it cannot be.


class Feed:
    """The history of a run file that may grow, come late, be replaced or be damaged.

    Args:
        path: The run file.
        name: What the page calls it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.history = History(name)
        self.generation = 0  # of the history; it changes when the file is another run
        self._mark: Position | None = None
        self._version = 0
        self._more = False
        self._said = ("", "")  # what became of the file, what is wrong with it
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Read what is new; whether more is left."""
        try:
            fresh = since(self.path, self._mark)
            with self._lock:
                self.history.take(fresh)
                self._version += bool(fresh.rows) or self._more != fresh.more
                self._mark, self._more = fresh.mark, fresh.more
                self._say(self._said[0], "")
        except Replaced:
            with self._lock:
                self.history, self._mark = History(self.history.name), None
                self.generation += 1
                self._say("The file was replaced by another run, which is read from its start.", "")
            return True
        except FileNotFoundError:
            gone = "The file is gone; what was read of it stays here."
            self._say(self._said[0], gone if self._mark else "There is no run file yet.")
        except (Refusal, OSError) as error:
            self._say(self._said[0], str(error))
        else:
            return self._more
        return False

    def state(self, seen: int = -1) -> dict[str, Any]:
        """All but the numbers, unless the page has seen it."""
        with self._lock:
            short = {"version": self._version, "generation": self.generation}
            if seen == self._version:
                return short
            words = {"reading": self._more, "note": self._said[0], "trouble": self._said[1]}
            return {**short, **words, **self.history.state()}

    def told(self) -> Told:
        """What is said of the run above its curves."""
        with self._lock:
            note, trouble = self._said
            return self.history.told(note=note, trouble=trouble, reading=self._more)

    def panel(self, place: int, after: int, generation: int) -> dict[str, Any]:
        """Readings of a panel; of another generation none."""
        return self._of(generation, lambda: self.history.numbers(place, after))

    def spectra(self, place: int, generation: int) -> dict[str, Any]:
        """Spectra of a matrix over time; of another generation none."""
        return self._of(generation, lambda: {"spectra": self.history.scrubbed(place)})

    def _of(self, generation: int, form: Any) -> dict[str, Any]:
        with self._lock:
            said = {"generation": self.generation}
            return said if generation != self.generation else {**said, **form()}

    def _say(self, *words: str) -> None:
        if words != self._said:
            self._said = (words[0], words[1])
            self._version += 1


# ------------------------------------------------------------------------------
# The page of run files as one file.


def history(path: Path, name: str) -> History:
    """All of a run file.

    Args:
        path: The run file.
        name: What the page calls it.

    Raises:
        Damaged: If it is; nothing of it is given.
        FileNotFoundError: If it is not there.
        ValueError: If it is no run file of a version known here.
    """
    found, mark, more = History(name), None, True
    while more:
        fresh = since(path, mark)
        found.take(fresh)
        mark, more = fresh.mark, fresh.more
    return found


def written(html: str | os.PathLike[str], runs: Sequence[Path]) -> Path:
    """Write the page of one run file or two as one HTML file that opens anywhere.

    Curves are thinned to what a screen shows, and keep their extremes; numbers have seven digits,
    with intervals that are never narrower than those measured.

    Args:
        html: The file to write; it appears complete or not at all.
        runs: The run files.

    Returns:
        `html`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    named = zip(runs, names(runs), strict=True)
    found = [history(path, name) for path, name in named]
    states = [
        {
            **run.state(),
            "kept": {
                "panels": [run.numbers(place) for place in range(len(run.panels))],
                "spectra": [{"spectra": run.scrubbed(i)} for i in range(len(run.spectra))],
            },
        }
        for run in found
    ]
    return run_page(html, states, [run.told() for run in found])


# ------------------------------------------------------------------------------
# A page on this machine that follows run files.


LOOPBACK = "127.0.0.1"
HOSTS = frozenset({LOOPBACK, "localhost", "[::1]"})  # which a page of ours is asked for by
PAUSE = 0.5  # seconds between looks at the files
LONGEST = 1000  # characters of a path that is answered
IDLE = 60.0  # seconds after which a silent connection is closed
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


class Server(Closing):
    """Serves the page of run files on loopback, and reads what is new in them.

    It answers GET on four paths, to requests that name this machine as their host, and changes
    nothing.

    Args:
        paths: One run file or two; one that does not exist yet is waited for.
        port: On which; 0 for any that is free.

    Raises:
        Refusal: If the port cannot be had.
    """

    def __init__(self, paths: Sequence[Path], *, port: int = 0) -> None:
        named = zip(paths, names(paths), strict=True)
        self.feeds = tuple(Feed(path, name) for path, name in named)
        self._ended = threading.Event()
        handler = type("Handler", (_Handler,), {"feeds": self.feeds, "ended": self._ended})
        try:
            self._http = _Http((LOOPBACK, port), handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "another program uses it"
            elif error.errno == errno.EACCES:
                what = "this user may not use it"
            else:
                what = error.strerror or str(error)
            raise Refusal(
                f"The page needs a port of {LOOPBACK} that is free; of {port} the system says that "
                f"{what}. Name another with `--port`, or leave it out, and a free one is taken."
            ) from error
        self.url = f"http://{LOOPBACK}:{self._http.server_address[1]}/"
        self._threads = [threading.Thread(target=self._follow, daemon=True)]
        self._threads[0].start()

    def serve(self) -> None:
        """Answer until `close` is called from another thread, or until interrupted."""
        self._http.serve_forever(poll_interval=0.1)

    def start(self) -> "Server":
        """Answer in a thread."""
        self._threads.append(threading.Thread(target=self.serve, daemon=True))
        self._threads[-1].start()
        return self

    def close(self) -> None:
        """Answer nobody any more, and let go of port and files."""
        self._ended.set()
        if len(self._threads) > 1:
            self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        while not self._ended.is_set():
            more = [feed.look() for feed in self.feeds]
            self._ended.wait(0.0 if any(more) else PAUSE)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left; of a fault of ours where it is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


# what a request names beside the run
NUMBERS = {"/panels": ("place", "after", "generation"), "/spectra": ("place", "generation")}


class _Handler(BaseHTTPRequestHandler):
    feeds: tuple[Feed, ...] = ()
    ended: threading.Event
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sigmascope", ""
    timeout = IDLE

    def do_GET(self) -> None:
        """Answer one request."""
        if self.ended.is_set():  # on a connection that was kept
            self.close_connection = True
            return
        host = self.headers.get("Host", "").rpartition(":")
        name = host[0] if host[2].isdecimal() else self.headers.get("Host", "")
        if name.lower() not in HOSTS:  # a page elsewhere whose name was led to this machine
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "Ask by 127.0.0.1.")
            return
        if len(self.path) > LONGEST:
            self._send(HTTPStatus.REQUEST_URI_TOO_LONG, "text/plain", "Too long.")
            return
        try:
            asked = urlsplit(self.path)  # which refuses some addresses
            query = dict(parse_qsl(asked.query))
            if asked.path == "/":
                found: Any = live_text([feed.told() for feed in self.feeds])
            elif asked.path == "/state":
                seen = [int(query.get(f"seen{i}", -1)) for i in range(len(self.feeds))]
                both = zip(self.feeds, seen, strict=True)
                runs = [feed.state(version) for feed, version in both]
                told = [feed.told() for feed in self.feeds]
                found = legible({"runs": runs, "pieces": pieces(told, live=True)})
            else:
                numbers = [int(query[name]) for name in ("run", *NUMBERS[asked.path])]
                if min(numbers) < 0:
                    raise ValueError(asked.query)
                feed, *rest = self.feeds[numbers[0]], *numbers[1:]
                found = feed.panel(*rest) if asked.path == "/panels" else feed.spectra(*rest)
        except (KeyError, ValueError, IndexError):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")
            return
        if isinstance(found, str):
            self._send(HTTPStatus.OK, "text/html", found)
        else:
            text = json.dumps(found, allow_nan=False, separators=(",", ":"))
            self._send(HTTPStatus.OK, "application/json", text)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: standard error is for what a person should read."""

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

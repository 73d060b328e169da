"""Self-contained interactive pages, and the pieces of HTML that they have in common."""

import base64
import gzip
import hashlib
import html
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from sigmascope.core.encoding import strict
from sigmascope.core.guard import Mark, Refusal, printable, write_text
from sigmascope.core.records import Estimate, Finding
from sigmascope.report import console
from sigmascope.report.findings import SEVERITIES, folded

__all__ = ["require_plots", "write_page"]

# ------------------------------------------------------------------------------
# Many numbers in few bytes, as `assets/packed.js` reads them back.
#
# A column of numbers is float32 with the two gaps to the ends of each interval as bfloat16, which
# are rounded up, so that no interval on the page is narrower than the one measured. A spectrum is
# thinned, and its logarithms are kept in sixteen bits each.


K = TypeVar("K")
POINTS = 96  # of a spectrum
HEAD = 32  # of those, how many leading values are kept one by one
STEPS = 0xFFFE  # of the logarithm, between the least positive value and the largest
_LARGEST, _LEAST = 3e38, 1e-37  # sizes that float32 holds in full


class Places(dict[K, int]):
    """What many numbers have in common, each once, with its place."""

    def __missing__(self, key: K) -> int:
        self[key] = len(self)
        return self[key]


def packed(estimates: Sequence[Estimate | None]) -> dict[str, Any]:
    """A column of numbers, nan where there is none.

    Returns:
        `value`, and `gaps` unless all intervals are points, in base64; `odd` has those that
        float32 cannot hold, by place.
    """
    numbers = [(e.value, e.low, e.high) if e else (math.nan,) * 3 for e in estimates]
    return packed_numbers(np.array(numbers).reshape(-1, 3))


def packed_numbers(numbers: np.ndarray) -> dict[str, Any]:
    """The same of values with the ends of their intervals [n, 3]."""
    value, low, high = numbers.T
    with np.errstate(all="ignore"):
        short = value.astype("<f4")
        size = np.abs(value)
        odd = np.flatnonzero((size > _LARGEST) | ((size > 0) & (size < _LEAST)))
        below, above = (np.fmax(gap, 0) for gap in (short - low, high - short))
    found: dict[str, Any] = {"value": _text(short)}
    # what is no more than the rounding to float32 goes without saying
    if (np.fmax(below, above) > 2.0**-22 * size).any():
        found["gaps"] = _text(np.concatenate([_upwards(below), _upwards(above)]))
    if len(odd):
        found["odd"] = {str(i): [strict(float(x)) for x in numbers[i]] for i in odd}
    return found


def packed_spectrum(sigma: Tensor, points: int = POINTS) -> str | None:
    """The largest value, the span of the logarithms, and the values; None where it has no scale.

    The first `HEAD` are kept, and an even choice of the rest up to `points`, the last among them;
    zeros stay zeros.
    """
    values = sigma.double().numpy()
    if not len(values) or not np.isfinite(values).all() or not values[0] > 0:
        return None
    values = values[places(len(values), points)]
    positive = values > 0
    logs = np.log(values[positive]) - np.log(values[0])
    span = float(-logs.min()) or 1.0
    steps = np.zeros(len(values), "<u2")
    steps[positive] = 1 + np.rint(STEPS * (1 + logs / span)).clip(0, STEPS)
    return _text(np.concatenate([np.array([values[0], span], "<f8").view("<u2"), steps]))


def packed_places(numbers: Sequence[int] | np.ndarray) -> str:
    """Small numbers, as places in a list, in two bytes each; in four where they do not fit."""
    array = np.array(numbers, "<u4")
    return _text(array if (array > 0xFFFF).any() else array.astype("<u2"))


def packed_doubles(numbers: Sequence[float] | np.ndarray) -> str:
    """Numbers in full, as float64."""
    return _text(np.array(numbers, "<f8"))


def shared(values: Iterable[Hashable]) -> dict[str, Any]:
    """Values of which many are the same: each once, and the places of all unless all are one."""
    every = list(values)
    place = {value: i for i, value in enumerate(dict.fromkeys(every))}
    at = [place[value] for value in every] if len(place) > 1 else []
    return {"words": list(place), "at": packed_places(at)}


def places(count: int, points: int = POINTS) -> np.ndarray:
    """Which of `count` values are kept, from 0."""
    if count <= points:
        return np.arange(count)
    step = (count - 1 - HEAD) / (points - HEAD - 1)
    rest = np.floor(HEAD + np.arange(points - HEAD) * step + 0.5)
    return np.concatenate([np.arange(HEAD), rest]).astype(int)


def _upwards(gap: np.ndarray) -> np.ndarray:
    """The least bfloat16 that is no smaller; what is not there is zero."""
    near = np.nan_to_num(gap, nan=0.0, posinf=np.inf).clip(0, np.inf)
    with np.errstate(over="ignore"):
        short = near.astype("<f4")
        short = np.where(short < near, np.nextafter(short, np.float32(np.inf)), short)
    bits = short.astype("<f4").view("<u4").astype(np.uint64) + 0xFFFF
    return (bits >> 16).astype("<u2")


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


_NONE: Mapping[str, str] = MappingProxyType({})
MARK = Mark(b"<!doctype html>\n<!-- a page of sigmascope -->\n")


# ------------------------------------------------------------------------------
# A page in one file: its words, data and scripts, and nothing from outside.


def write_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    data: dict,
    template: str,
    scripts: tuple[str, ...],
    pieces: Mapping[str, str] = _NONE,
    styles: tuple[str, ...] = ("page.css",),
    plots: bool = False,
) -> Path:
    """Write one HTML file that opens anywhere, without a network.

    Args:
        path: The file; it appears complete or not at all.
        title: Of the window; printable.
        data: What the scripts draw, as strict JSON.
        template: An asset with places for all of these, and for `pieces`.
        pieces: HTML for the other places of the template, where it has some.
        scripts: Assets that are joined into one script, in this order.
        styles: Assets that say what it looks like, in this order.
        plots: Whether plotly is there, packed to 2 MB; the template has a place for it then, and
            `landscape.js` unpacks it.

    Raises:
        Refusal: If there is no folder for it, something that is not such a page is there, or the
            disk is full; what was there is then as it was.
    """
    how = {"template": template, "scripts": scripts, "styles": styles, "plots": plots}
    return write_text(path, page_text(title=title, data=data, pieces=pieces, **how), mark=MARK)


def page_text(
    *,
    title: str,
    data: dict,
    template: str,
    scripts: tuple[str, ...],
    pieces: Mapping[str, str] = _NONE,
    styles: tuple[str, ...] = ("page.css",),
    plots: bool = False,
    live: bool = False,
) -> str:
    """The text of a page; one that is `live` may ask the server it came from, and nobody else."""
    script = "\n".join(map(_asset, scripts))
    places = defaultdict(str, pieces)  # what there is nothing for stays empty
    # JSON that cannot end the element it stands in, nor open another; ASCII: U+2028 is escaped
    text = json.dumps(legible(data), allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    places |= {"title": html.escape(title), "data": text, "script": script}
    places["style"] = "\n".join(map(_asset, styles))
    allowed = [script]
    if plots:
        require_plots()
        from plotly.offline import get_plotlyjs  # which other pages do without

        allowed.insert(0, get_plotlyjs())
        packed = gzip.compress(allowed[0].encode(), mtime=0)
        places["plotly"] = base64.b64encode(packed).decode()
    # under it only these scripts run, and nothing is fetched
    digests = (hashlib.sha256(script.encode()).digest() for script in allowed)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    places["policy"] = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
        + ("; connect-src 'self'" if live else "")
    )
    return Template(_asset(template)).substitute(places)


def require_plots() -> None:
    """Refuse a page that turns in space where plotly, which draws it, is absent.

    Raises:
        Refusal: With what to install, and what there is without it.
    """
    if find_spec("plotly") is None:
        raise Refusal(
            "The page of a landscape needs plotly: pip install 'sigmascope[landscape]'. Without it "
            "the same numbers are in the text and in `--json` (from Python: `sigmascope.text`)."
        )


def _asset(name: str) -> str:
    return resources.files("sigmascope.report").joinpath("assets", name).read_text("utf-8")


def legible(data: Any) -> Any:
    """The same with every text in it printable, as scripts take it for granted."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, Mapping):
        return {key: legible(value) for key, value in data.items()}
    return [*map(legible, data)] if isinstance(data, list | tuple) else data


# ------------------------------------------------------------------------------
# Pieces: numbers, tiles, findings, reasons, facts, tables.


class Html(str):
    """Text that is HTML already; any other is escaped where it is put into a piece."""

    __slots__ = ()


Piece = str | None  # None leaves no trace

_EMPTY = frozenset({"input"})  # elements that have no content
_NAMED = 1000  # names under one reason
_APART = ("setup", "training")  # views in which the form tells what is read of one quantity


def element(tag: str, *inside: Piece, **attributes: Piece) -> Html:
    """One element; whatever text holds is shown and never acts.

    Example:
        >>> element("p", "a < b", class_="hint", data_at="3", hidden=None)
        '<p class="hint" data-at="3">a &lt; b</p>'
    """
    given = {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
    words = "".join(
        f' {name}="{escape(printable(value))}"'
        for name, value in given.items()
        if value is not None
    )
    end = "" if tag in _EMPTY else f"</{tag}>"
    return Html(f"<{tag}{words}>{joined(inside)}{end}")


def joined(pieces: Iterable[Piece]) -> Html:
    """One after the other."""
    known = (piece for piece in pieces if piece is not None)
    return Html("".join(p if isinstance(p, Html) else escape(printable(p)) for p in known))


def prose(text: str) -> Html:
    """Text in which `code` is marked by backticks."""
    parts = text.split("`")
    return joined(element("code", part) if i % 2 else part for i, part in enumerate(parts))


def named(site: str) -> Html:
    """A name from outside, whichever way it is written."""
    return element("bdi", site, class_="name")


def compact(number: float, *, digits: int = 4) -> str:
    """As in the terminal, with a true minus."""
    return console.compact(number, digits=digits).replace("-", "−")


def measured(estimate: Estimate) -> str:
    """The value, with its interval where it matters."""
    return console.measured(estimate).replace("-", "−")


def chance(risk: float) -> str:
    """How often an interval misses, in words; nothing where it never does."""
    often = compact(risk, digits=2)
    return f"the interval misses with chance at most {often}" if risk else ""


def plural(count: int, word: str, words: str = "") -> str:
    """The word for so many."""
    return word if count == 1 else words or f"{word}s"


def tile(title: str, value: str, tone: str = "", says: str = "", hint: str | None = None) -> Html:
    """A number with what it is; what that means stands below it, or in a tooltip."""
    meaning = element("span", says, class_="meaning") if says else None
    named = element("dt", title, meaning)
    return element("div", named, element("dd", value), class_=tone, title=hint)


def facts(rows: Iterable[tuple[str, str]]) -> Html:
    """Names with their values."""
    each = (piece for key, value in rows for piece in (element("dt", key), element("dd", value)))
    return element("dl", *each, class_="facts")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Piece]], says: Sequence[str] = (), words: int = 1
) -> Html:
    """Rows with a name each, and numbers in all other cells.

    Args:
        heads: Titles of the columns.
        rows: Cells of each row; text becomes a cell, HTML is one.
        says: What the columns mean, if that is told.
        words: How many of them hold words.
    """
    told = [*says, *[""] * len(heads)]
    head = (
        element("th", each, scope="col", class_="n" if i >= words else None, title=told[i] or None)
        for i, each in enumerate(heads)
    )
    cell = lambda c: c if isinstance(c, Html) else element("td", c, class_="n")
    line = lambda row: element("tr", element("th", row[0], scope="row"), *map(cell, row[1:]))
    return element(
        "table", element("thead", element("tr", *head)), element("tbody", *map(line, rows))
    )


def number(estimate: Estimate) -> Html:
    """A cell with how it was found in its tooltip."""
    how = "; ".join(filter(None, (estimate.how, chance(estimate.risk))))
    return element("td", measured(estimate), class_="n", title=how)


def options(rows: Iterable[tuple[str, str]]) -> Html:
    """Choices of a menu: values with their words."""
    return joined(element("option", words, value=value) for value, words in rows)


def reasons(found: Mapping[tuple[str, str], Sequence[str]], none: str) -> Html:
    """Each reason with how many it holds for, and their names, a line for each.

    Args:
        found: What is missing and why, with the sites.
        none: What is said where nothing is.
    """
    if not found:
        return element("p", none, class_="empty")
    lines: list[Html] = []
    for (what, why), sites in found.items():
        parts = element("span", what), element("span", why, class_="statement")
        rest = len(sites) - _NAMED
        more = [f"and {rest} more, which the JSON form has"] if rest > 0 else []
        names = "\n".join(escape(printable(line)) for line in (*sites[:_NAMED], *more))
        lines.append(
            element(
                "details",
                element("summary", element("strong", str(len(sites))), *parts),
                element("pre", Html(names), class_="names", tabindex="0"),
            )
        )
    return joined(lines)


# ------------------------------------------------------------------------------
# Findings.


def severities(findings: Sequence[Finding]) -> list[Html]:
    """How many causes there are of each severity."""
    causes = [findings[place].severity for place in folded(findings)]
    counts = {kind: causes.count(kind) for kind in SEVERITIES}
    tone = lambda kind, count: "" if kind == "note" else kind if count else "good"
    return [tile(plural(n, kind), str(n), tone(kind, n)) for kind, n in counts.items()]


def cards(
    findings: Sequence[Finding],
    none: str,
    *,
    meant: Callable[[str], str],
    way: Callable[[int], Piece],
) -> list[Html]:
    """A card for each cause, with what follows from it.

    Args:
        findings: In the order in which they are shown.
        none: What is said where there is none.
        meant: What a quantity is.
        way: A button to where the finding at a place is seen, if it is.
    """
    found = []
    for cause, rest in folded(findings).items():
        say = f"{len(rest)} {plural(len(rest), 'finding follows', 'findings follow')} from this"
        inside = [card(findings[i], meant=meant, way=way(i), follows=True) for i in rest]
        more = element("details", element("summary", say), *inside) if rest else None
        found.append(card(findings[cause], meant=meant, way=way(cause), more=more))
    return found or [element("p", none, class_="empty")]


def card(
    finding: Finding,
    *,
    meant: Callable[[str], str],
    way: Piece,
    more: Piece = None,
    follows: bool = False,
    when: Piece = None,
    over: bool = False,
) -> Html:
    """One finding; what follows from another needs no remedy of its own.

    Args:
        finding: Which.
        meant: What a quantity is.
        way: To where it is seen.
        more: What follows from it.
        follows: Whether it stands under its cause.
        when: Of an alarm, how long it is or was in force.
        over: Whether it has ended.
    """
    head = element(
        "header",
        element("span", finding.severity, class_="badge"),
        element("h3", finding.name),
        named(finding.site) if finding.site else None,
        when,
    )
    remedies, shows = finding.remedies, finding.evidence[:6]
    rows: list[tuple[str, Html | str]] = []
    if remedies and not follows:
        rows.append(("What to do", element("ol", *(element("li", prose(r)) for r in remedies))))
    seen = []
    for f in finding.facts:
        word = element("span", f.word, class_="number")
        means = meant(f.quantity) or None
        seen.append(element("li", named(f.site), f" {f.quantity} ", word, title=means))
    for r in shows:
        form = f", {r.form}:" if r.view in _APART and r.form else ""
        risk = r.estimate.risk
        number = element("span", measured(r.estimate), class_="number")
        hint = element("span", f" ({chance(risk)})", class_="hint") if risk else None
        words = f" {r.quantity}{form} "
        means = meant(r.quantity) or None
        seen.append(element("li", named(r.site), words, number, hint, title=means))
    if seen:
        rows.append(("Evidence", element("ul", *seen)))
    rows.append(("Source", finding.source))
    if finding.follows and not follows:
        rows.append(("Follows from", finding.follows))
    each = (
        piece for title, inside in rows for piece in (element("dt", title), element("dd", inside))
    )
    says = element("p", prose(finding.says), class_="says")
    kind = f"{'consequence' if follows else 'card'} {finding.severity}{' over' if over else ''}"
    return element("article", head, says, element("dl", *each), way, more, class_=kind)

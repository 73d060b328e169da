"""Self-contained interactive pages."""

import base64
import gzip
import hashlib
import html
import json
import math
import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
from sigmascope.core.records import Estimate

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
    """Values of which many are the same: each once, and the places of all."""
    every = list(values)
    place = {value: i for i, value in enumerate(dict.fromkeys(every))}
    return {"words": list(place), "at": packed_places([place[value] for value in every])}


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
    return resources.files("sigmascope.report.pages").joinpath("assets", name).read_text("utf-8")


def legible(data: Any) -> Any:
    """The same with every text in it printable, as scripts take it for granted."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, Mapping):
        return {key: legible(value) for key, value in data.items()}
    return [*map(legible, data)] if isinstance(data, list | tuple) else data

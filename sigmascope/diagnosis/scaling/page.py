"""The page of `widths`: what each weight's first step does over width, at a glance."""

import math
import os
from pathlib import Path

from sigmascope.core.guard import printable
from sigmascope.diagnosis.scaling.exponents import ScalingLaw
from sigmascope.diagnosis.scaling.presentation import alike, drawable, rates_in_words
from sigmascope.diagnosis.scaling.rates import BestRate
from sigmascope.diagnosis.scaling.results import WeightScaling, Widths
from sigmascope.report.pages import (
    Html,
    Piece,
    compact,
    element,
    facts,
    joined,
    named,
    plural,
    table,
    tile,
    write_page,
)

_SCRIPTS = ("words.js", "packed.js", "page.js", "scales.js", "marks.js", "chart.js", "widths.js")
_CALM = ("maximal", "cannot be told")
_TONES = {"exploding": 1, "lazy": 4, "vanishing": 3, "maximal": 2, "cannot be told": 6}
_PLAIN = "border: 0; background: none; padding: 0; color: var(--accent); cursor: pointer"
_REACH, _LONG = 2.0, 120  # exponents that a bar shows, and how long it is


def widths_page(found: Widths, path: str | os.PathLike[str]) -> Path:
    """Write what `widths` found as one HTML file that opens anywhere, without a network.

    Args:
        found: What was found.
        path: The file to write; it appears complete or not at all.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    lines = [
        {
            "name": printable(w.name),
            "power": f"{w.verdict}: power {compact(law.exponent.value, digits=3)}",
            "tone": _TONES[w.verdict],
            "y": [v / w.curve[0] for v in w.curve],
            "law": [law.exponent.value, law.exponent.low, law.exponent.high],
        }
        for w, law in drawable(found)
    ]
    seen = (place for place, (w, _) in enumerate(drawable(found)) if w.verdict not in _CALM)
    rates = [
        {
            "name": name,
            "tone": place,
            "x": [f for f, loss in one.curve.items() if math.isfinite(loss)],
            "y": [loss for loss in one.curve.values() if math.isfinite(loss)],
        }
        for place, (one, name) in enumerate(_rates(found))
    ]
    losses = sorted(loss for rate in rates for loss in rate["y"]) or [0.0]
    most = losses[0] + 4 * (losses[len(losses) // 2] - losses[0])  # so that the rest can be seen
    data = {"axis": found.axis, "sizes": found.widths, "lines": lines, "rates": rates}
    return write_page(
        path,
        title=printable(f"{found.axis} {found.widths[0]} to {found.widths[-1]}"),
        data={**data, "chosen": next(seen, 0), "most": most},
        pieces=_pieces(found),
        template="widths.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css", "script.css"),
    )


def _rates(found: Widths) -> list[tuple[BestRate, str]]:
    """Losses over the rate, with their names."""
    both = [*((b, "") for b in found.best), *((b, ", with the cure") for b in found.best_after)]
    return [(one, f"{found.axis} {one.width}{said}") for one, said in both]


def _row(place: int, w: WeightScaling, law: ScalingLaw | None) -> list[Piece]:
    verdict = element("strong", w.verdict, style=f"color: var(--c{_TONES[w.verdict]})")
    kind, told = element("td", w.kind), element("td", verdict, title=w.why)
    if law is None:
        return [named(w.name), kind, element("td", "–", class_="n"), element("td"), told]
    # an exponent with its interval as a little picture: the line in the middle is 0
    at = lambda v: _LONG / 2 * (1 + min(max(v, -_REACH), _REACH) / _REACH)
    e, middle = law.exponent, f"{_LONG / 2:g}"
    low, value, high = (f"{at(v):.1f}" for v in (e.low, e.value, e.high))
    picture = element(
        "svg",
        element("line", x1=middle, x2=middle, y1="0", y2="14", stroke="var(--grid)"),
        element("line", x1=low, x2=high, y1="7", y2="7", stroke="currentColor", stroke_width="2"),
        element("circle", cx=value, cy="7", r="3.5", fill="currentColor"),
        width=str(_LONG),
        height="14",
        aria_hidden="true",
    )
    bar = element("td", picture, style=f"color: var(--c{_TONES[w.verdict]})")
    says = law.says.replace("-", "−")
    pick = element("button", named(w.name), type="button", data_weight=str(place), style=_PLAIN)
    return [pick if w.curve else named(w.name), kind, element("td", says, class_="n"), bar, told]


def _pieces(found: Widths) -> dict[str, Html]:
    first, last, axis = found.widths[0], found.widths[-1], found.axis
    counts = {v: sum(w.verdict == v for w in found.weights) for v in _TONES}
    bad = ("exploding", "lazy", "vanishing")
    tiles = [
        tile(v, str(n), "error" if v in bad else "good" if v == "maximal" else "")
        for v, n in counts.items()
        if n
    ]
    places = {id(w): place for place, (w, _) in enumerate(drawable(found))}
    order = [*_TONES]
    rows = sorted(found.weights, key=lambda w: order.index(w.verdict))
    what = "what its change does" if axis == "width" else "what its changes do to the output"
    body = table(
        ("weight", "kind", f"power of {axis}", "", "verdict"),
        (_row(places.get(id(w), 0), w, w.law) for w in rows),
        says=("", "", f"by which {what} grows", "the line is 0", ""),
        words=5,
    )
    cards = [
        element(
            "article",
            element("header", element("span", one.cause, class_="badge")),
            element("p", f"{says}.", class_="says"),
            element("dl", element("dt", "What to do"), element("dd", cure)),
            class_="card error",
        )
        for says, cure, one in alike(found.obstacles)
    ]
    in_order = all(w.verdict == "maximal" for w in found.weights)
    none = (
        f"Nothing stands in the way: what is tuned at {axis} {first} should hold."
        if in_order
        else "Nobody is accused. What could not be told stands below."
    )
    left = [f"{printable(name)}: {why}" for name, why in found.skipped.items()]
    drawn = {w.verdict for w, _ in drawable(found)}
    # what the colours mean
    key = lambda name, tone: element("span", name, class_="line", style=f"--tone: var(--c{tone})")
    keys = [key(verdict, tone) for verdict, tone in _TONES.items() if verdict in drawn]
    there = {
        "cured": found.code,
        "tried": found.best,
        "curves": found.beside,
        "again": found.after,
    }
    steps = f"{found.steps} {plural(found.steps, 'step')} of {found.optimizer}"
    runs = f"{len(found.widths)} {axis}s, {found.seeds} {plural(found.seeds, 'seed')}, {steps}"
    about = [
        (f"{axis}s".capitalize(), ", ".join(map(str, found.widths))),
        ("Seeds", str(found.seeds)),
        ("Training", steps),
    ]
    for name, law in found.output.items():
        low, value, high = map(compact, (law.exponent.low, law.exponent.value, law.exponent.high))
        about.append((f"Output, {name}", f"power {value} [{low}, {high}]"))
    for size, (before, last_loss) in found.losses.items():
        says = f"{compact(before)}, before the last step {compact(last_loss)}"
        about.append((f"Loss at {size}", says))
    beside = table(
        ("", *map(str, found.widths)),
        (
            [name, *(compact(v, digits=3) for v in numbers)]
            for name, numbers in found.beside.items()
        ),
    )
    after = "; ".join(f"{n} {v}" for v in _TONES if (n := sum(w.verdict == v for w in found.after)))
    # `element` would take the ends of lines for what does not print
    code = (piece for line in found.code.split("\n") for piece in (line, Html("\n")))
    return {
        **{name: Html("" if is_there else "hidden") for name, is_there in there.items()},
        "name": joined([f"Whether what is tuned at {axis} {first} holds at {axis} {last}"]),
        "summary": joined([f"{runs}.", *(f" {line}." for line in found.uses)]),
        "tiles": joined(tiles),
        "cards": joined(cards or [element("p", none, class_="empty")]),
        "axis": joined([axis]),
        "keys": joined(keys),
        "table": body,
        "code": element("pre", *code, class_="code", tabindex="0"),
        "after": joined([f"Measured again with it, on copies: {after}." if after else ""]),
        "rated": joined(key(name, tone) for tone, (_, name) in enumerate(_rates(found))),
        "rates": joined(element("p", line) for line in rates_in_words(found)),
        "beside": beside,
        "missing": joined(element("li", line) for line in left or ["Nothing was left out."]),
        "about": facts(about),
    }

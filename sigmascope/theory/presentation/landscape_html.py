"""The interactive page of a loss landscape."""

import html
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sigmascope.core.guard import printable
from sigmascope.report.pages import (
    Html,
    element,
    facts,
    joined,
    named,
    number,
    options,
    plural,
    table,
    write_page,
)
from sigmascope.report.results import json_form
from sigmascope.theory.landscape import Landscape
from sigmascope.theory.presentation.results import LAYER_NUMBERS, MATRICES, Scenery

_SCRIPTS = ("words.js", "page.js", "scales.js", "landscape.js")
_BENDS = {
    "largest": "top",
    "smallest": "bottom",
    "trace": "trace",
    "Frobenius norm": "frobenius",
    "upwards": "upwards",
    "downwards": "downwards",
}


def landscape_page(
    found: Sequence[Landscape],
    path: str | os.PathLike[str],
    *,
    scenery: Scenery | None = None,
    loss: str = "",
    about: Mapping[str, str] | None = None,
) -> Path:
    """Write conditioning, curvature, loss surface and regions as one interactive HTML file.

    Args:
        found: The model as it is, and variants of it.
        path: The file to write; it appears complete or not at all.
        scenery: What else was measured.
        loss: Name of the loss; squared error if none is given.
        about: Words about the measurement; `name` is the title.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    words, seen = dict(about or {}), scenery or Scenery()
    form = json_form(found[0], found[1:], scenery=scenery, loss=loss)
    own, surface, regions = found[0], form["surface"], form["regions"]
    several = len(found) > 1 and own.layers
    there = {
        "variants": several,
        "curvature": seen.curvature,
        "surface": surface,
        "relief": surface and surface["along"],
        "regions": regions,
    }
    counts = ", ".join(map(str, regions["counts"])) if regions else ""
    met = len(regions["polygons"]) if regions else 0
    bends = seen.curvature
    names = [title.replace(" ", "_") for title in LAYER_NUMBERS]
    row = lambda layer: [named(layer.site), *(number(getattr(layer, name)) for name in names)]
    left = (
        [named(s.site), element("td", f"not measured: {s.why}", colspan=str(len(names)))]
        for s in own.skipped
    )
    curved = lambda part: [
        named(part.site),
        str(part.parameters),
        *(number(getattr(part, name)) for name in _BENDS.values()),
    ]
    return write_page(
        path,
        title=printable(words.get("name", "landscape")),
        data={"figures": _figures(form)},
        pieces={
            **{name: Html("" if is_there else "hidden") for name, is_there in there.items()},
            "model": joined([words.get("name", "Landscape")]),
            "summary": joined(
                [f"How well conditioned learning is under {form['loss']}, layer by layer."]
            ),
            "table": table(["layer", *LAYER_NUMBERS], [*map(row, own.layers), *left]),
            "columns": joined(
                [" · ".join(f"{title}: {says}" for title, says in LAYER_NUMBERS.items())]
            ),
            "sites": options((layer.site, layer.site) for layer in own.layers),
            "bends": table(["weights of", "number", *_BENDS], map(curved, bends.parts))
            if bends
            else Html(),
            "curved": joined([f"Curvature: {MATRICES[bends.kind]}" if bends else ""]),
            "lost": joined([f"Loss on {surface['says']}." if surface else ""]),
            "met": joined(
                [
                    f"The plane through three samples meets {met} {plural(met, 'region')}; after "
                    f"each activation: {counts or 'none bends it'}."
                ]
            ),
            "about": facts(words.items()),
        },
        template="landscape.html",
        scripts=_SCRIPTS,
        plots=True,
    )


# ------------------------------------------------------------------------------
# Figures, as plotly draws them, with colours by the names that the page has for them; those of a
# plot by what the reader chose.


Figure = dict[str, Any]

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")
_INKS = 7
_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 12}}
_ROOMY = {"l": 70, "r": 14, "t": 60, "b": 60}


def _figures(form: Mapping[str, Any]) -> dict[str, dict[str, Figure]]:
    variants, curvature = form["variants"], form["curvature"]
    layers = variants[0]["layers"]
    labels = [_label(layer["site"], 24) for layer in layers]
    titles = {title: title.replace(" ", "_") for title in [*LAYER_NUMBERS][:3]}
    values = [[_plain(layer[name]["value"]) for layer in layers] for name in titles.values()]
    traces = [_line(t, labels, v, i) for i, (t, v) in enumerate(zip(titles, values, strict=True))]
    y = _axis("κ", **_decades(values))
    found = {"conditions": {"": _figure(traces, y=y, margin={**_ROOMY, "b": 90}, many=True)}}
    if len(variants) > 1 and layers:
        sites = [layer["site"] for layer in layers]
        there = [{layer["site"]: layer for layer in v["layers"]} for v in variants]
        values = [
            [_plain(v[site]["condition"]["value"]) if site in v else None for v in there]
            for site in sites
        ]
        traces = [_line(site, _names(variants), values[i], i) for i, site in enumerate(sites)]
        y = _axis("κ", **_decades(values))
        found["compared"] = {"": _figure(traces, y=y, many=len(sites) <= 12)}
        found["trajectories"] = {site: _trajectories(variants, site) for site in sites}
    if curvature:
        found["density"] = {"": _density(curvature["parts"])}
    if form["surface"]:
        found["slice"] = dict(_slices(form["surface"]))
    if form["regions"]:
        found["map"] = {"": _map(form["regions"])}
    return found


def _trajectories(variants: Sequence[Mapping[str, Any]], site: str) -> Figure:
    """Each singular value over the variants that have it."""
    there = [next((each for each in v["layers"] if each["site"] == site), None) for v in variants]
    ranks = {}  # the values of each variant, by rank
    for place, layer in enumerate(there):
        axes = layer["axes"] if layer else {"at": [], "sigma": []}
        for rank, sigma in zip(axes["at"], axes["sigma"], strict=True):
            ranks.setdefault(rank, [None] * len(there))[place] = _plain(sigma)
    faint = {"mode": "lines", "line": {"color": "var(--c0)59", "width": 1}}
    names = _names(variants)
    traces = [{**_line(f"σ {rank}", names, y, 0), **faint} for rank, y in sorted(ranks.items())]
    positive = [v for each in ranks.values() for v in each if v is not None and v > 0]
    floors = [layer["floor"] for layer in there[:1] if layer]  # below it there is rounding
    seen = [v for v in positive if v > max(positive) / (floors or [math.inf])[0]]
    y = _axis("singular value", **_decades([seen]))
    return _figure(traces, y=y, margin={**_ROOMY, "t": 14})


def _density(parts: Sequence[Mapping[str, Any]]) -> Figure:
    traces = []
    for i, part in enumerate(parts):
        d = part["density"]
        if d is None:
            continue
        steps = {"type": "scatter", "mode": "lines", "x": d["at"], "hoverinfo": "skip"}
        edge = {**steps, "line": {"width": 0, "shape": "hv"}, "showlegend": False}
        traces.append({**edge, "y": d["low"]})
        inside = {"fill": "tonexty", "fillcolor": f"var(--c{i % _INKS})2e"}
        traces.append({**edge, "y": d["high"], **inside})
        line = {"color": f"var(--c{i % _INKS})", "width": 2, "shape": "hv"}
        traces.append(
            {**_line(part["site"], d["at"], d["below"], i), "mode": "lines", "line": line}
        )
    x, y = _axis("eigenvalue", exponentformat="power"), _axis("share", range=[-0.03, 1.03])
    return _figure(traces, x=x, y=y, margin={**_ROOMY, "t": 30}, many=len(parts) > 1)


def _slices(surface: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """The loss, its logarithm, and both in relief if it is on a plane."""
    for log in (False, True):
        said = "log₁₀ loss" if log else "loss"
        z = [[_plain(cell) for cell in row] for row in surface["losses"]]
        if log:
            z = [[math.log10(v) if v is not None and v > 0 else None for v in row] for row in z]
        across = _axis(_label(surface["across"]), constrain="domain")
        if not surface["along"]:
            line = _line("loss", surface["xs"], z[0], 0)
            yield "surface-log" * log, _figure([line], x=across, y=_axis(said))
            continue
        along = _axis(_label(surface["along"]), constrain="domain")
        bar = {"title": {"text": said}, "outlinewidth": 0, "thickness": 14}
        grid = {"x": surface["xs"], "y": surface["ys"], "z": z, "colorbar": bar}
        grid["colorscale"] = "Viridis"
        here = {
            **{"type": "scatter", "mode": "markers", "x": [0], "y": [0], "name": "the model"},
            **{"marker": {"color": "#fff", "size": 9, "symbol": "x"}, "hoverinfo": "name"},
        }
        flat = [{"type": "contour", "ncontours": 24, **grid}, here]
        yield "surface-log" * log, _figure(flat, x=across, y={**along, "scaleanchor": "x"})
        scene = {"xaxis": across, "yaxis": along, "zaxis": _axis(said)}
        scene["camera"] = {"eye": {"x": 1.5, "y": -1.5, "z": 0.9}}
        bare = {"l": 0, "r": 0, "t": 0, "b": 0}
        figure = _figure([{"type": "surface", **grid}], margin=bare)
        figure["layout"]["scene"] = scene
        yield " ".join(["relief", *["surface-log"] * log]), figure


def _map(regions: Mapping[str, Any]) -> Figure:
    """Regions by what is predicted in them, and the edges by their activation."""
    traces = []
    kinds = sorted({*regions["classes"]})
    for i, kind in enumerate(kinds):
        own = [
            (j, p)
            for j, (p, c) in enumerate(zip(regions["polygons"], regions["classes"], strict=True))
            if c == kind
        ]
        for shade in range(3):  # so that neighbours of one prediction are told apart
            members = [p for j, p in own if j % 3 == shade]
            tint = f"hsla({360 * i / len(kinds):g}, 55%, {48 + 9 * shade}%, 0.75)"
            group = {"legendgroup": str(kind), "showlegend": shade == 0, "meta": "fills"}
            if members:
                # polygons drawn as one shape with gaps
                ends = {
                    axis: [v for p in members for v in (*p[i::2], p[i], None)]
                    for i, axis in enumerate("xy")
                }
                how = {"type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": tint}
                how |= {"line": {"width": 0}, "hoverinfo": "name"}
                traces.append({**ends, **how, "name": f"prediction {kind}", **group})
    last = max(regions["by"], default=0)
    for k in range(last, -1, -1):
        mine = [c for c, by in zip(regions["cuts"], regions["by"], strict=True) if by == k]
        line = {"color": f"var(--c{k % _INKS})", "width": 2.2 - 1.6 * k / max(last, 1)}
        ends = {
            axis: [v for c in mine for v in (c[i], c[i + 2], None)] for i, axis in enumerate("xy")
        }
        how = {
            "type": "scatter",
            "mode": "lines",
            "line": line,
            "hoverinfo": "skip",
            "meta": "edges",
        }
        traces.append({**ends, **how, "name": f"activation {k + 1}"})
    marker = {"color": "var(--ink)", "size": 8, "symbol": "x"}
    traces.append(
        {
            **{"type": "scatter", "mode": "markers+text", "name": "samples", "showlegend": False},
            **{axis: [p[i] for p in regions["at"]] for i, axis in enumerate("xy")},
            "text": [f"sample {i}" for i in regions["samples"]],
            **{"textposition": "top center", "textfont": {"color": "var(--ink)"}},
            **{"marker": marker, "hoverinfo": "text"},
        }
    )
    x, y = (_axis("", range=[-1, 1], constrain="domain") for _ in "xy")
    margin = {**_ROOMY, "l": 40, "b": 40}
    return _figure(traces, x=x, y={**y, "scaleanchor": "x"}, margin=margin, many=True)


def _line(name: str, x: Sequence[Any], y: Sequence[float | None], index: int) -> dict[str, Any]:
    colour = f"var(--c{index % _INKS})"
    marker = {"color": colour, "size": 6, "symbol": _SYMBOLS[index % len(_SYMBOLS)]}
    how = {"type": "scatter", "mode": "lines+markers", "name": _label(name, 40)}
    return {**how, "x": x, "y": y, "line": {"color": colour, "width": 2}, "marker": marker}


def _figure(
    traces: Sequence[dict[str, Any]],
    *,
    x: Mapping[str, Any] | None = None,
    y: Mapping[str, Any] | None = None,
    margin: Mapping[str, int] = _ROOMY,
    many: bool = False,
) -> Figure:
    """Traces with their axes; a category for each place along if x is not given."""
    card = {"bgcolor": "var(--card)", "bordercolor": "var(--line)", "align": "left"}
    layout = {
        "font": {"family": "var(--sans)", "size": 13, "color": "var(--ink)"},
        **{"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"},
        **{"margin": margin, "showlegend": many, "legend": _LEGEND},
        **{"hovermode": "closest", "hoverdistance": 30},
        "hoverlabel": {**card, "font": {"color": "var(--ink)", "size": 13}},
        **{"xaxis": x or _axis("", type="category"), "yaxis": y or {}},
    }
    return {"data": traces, "layout": layout}


def _axis(title: str, **more: Any) -> dict[str, Any]:
    lines = {"gridcolor": "var(--grid)", "linecolor": "var(--line)", "tickcolor": "var(--line)"}
    return {"title": {"text": title, "standoff": 8}, **lines, "zeroline": False, **more}


def _decades(values: Iterable[Iterable[float | None]]) -> dict[str, Any]:
    """A log scale with decades only, however many there are: 1, 10, 100, but 10⁻⁶ and not 1μ."""
    logs = [math.log10(v) for each in values for v in each if v is not None and v > 0] or [0.0]
    low, high = min(logs), max(logs)
    room = max(0.06 * (high - low), 0.04)
    every = max(1, math.ceil((high - low) / 6)) if high - low > 1.2 else "D1"
    ends = {"type": "log", "range": [low - room, high + room]}
    return {**ends, "exponentformat": "power", "dtick": every}


def _names(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Variants that differ in the strength of a skip connection are told apart by it alone."""
    return [_label(f"ρ = {v['rho']:g}" if v["rho"] else v["says"]) for v in variants]


def _label(text: str, width: int = 200) -> str:
    """Plotly reads some HTML in its labels; nothing of a name may be read as HTML."""
    letters, tail = printable(text), width // 2
    short = letters if len(letters) <= width else f"{letters[: width - tail - 1]}…{letters[-tail:]}"
    return html.escape(short, quote=False)


def _plain(cell: float | str | None) -> float | None:
    """JSON has no infinities; they come as words, and have no place on an axis."""
    return cell if isinstance(cell, int | float) else None

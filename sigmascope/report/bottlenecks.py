"""The inner dimension of a network, as text, as JSON and as a picture."""

import math
from collections.abc import Iterator
from html import escape
from typing import Any

import torch
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from sigmascope.diagnosis import Bottleneck, Evidence
from sigmascope.gate import printable
from sigmascope.records import Estimate
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import estimate_form
from sigmascope.report.names import shortened
from sigmascope.report.numbers import compact

NAME = 40  # columns that a name is given
SIDE, MARGIN = 480, 40  # of the picture, in pixels
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


def bottleneck_text(found: Bottleneck, *, colour: bool = False, width: int = 100) -> str:
    """The verdict, then what it rests on.

    Args:
        found: From `diagnosis.bottleneck`.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
    """
    return rendered(_parts(found), colour=colour, width=width)


def bottleneck_form(found: Bottleneck) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "schema": "sigmascope/bottleneck/1",
        "rank": estimate_form(found.rank),
        "layers": list(found.layers),
        "kind": found.kind,
        "says": found.says,
        "evidence": [
            {
                "name": e.name,
                "site": e.site,
                "estimate": estimate_form(e.estimate),
                "says": e.says,
            }
            for e in found.evidence
        ],
    }


def _parts(found: Bottleneck) -> Iterator[RenderableType]:
    yield Text(f"{found.kind.upper()}  {printable(found.says)}", "bold")
    yield ""
    whole = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for e in found.evidence:
        if e.site == "(network)":
            whole.add_row(e.name, _number(e.estimate), Text(e.says, "dim"))
    yield whole
    yield ""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("layer", "passes on", "rank of its weight"):
        justify = "left" if title == "layer" else "right"
        grid.add_column(title, justify=justify, header_style="dim")
    by_site: dict[str, dict[str, Evidence]] = {}
    for e in found.evidence:
        if e.site != "(network)":
            by_site.setdefault(e.site, {})[e.name] = e
    for site, named in by_site.items():
        cells = [_maybe(named.get(name)) for name in ("written rank", "relative weight rank")]
        narrow = "bold" if site in found.layers else ""
        grid.add_row(Text(shortened(printable(site), NAME), narrow), *cells)
    yield grid


def _maybe(e: Evidence | None) -> str:
    return "" if e is None else _number(e.estimate)


def _number(e: Estimate) -> str:
    value = compact(e.value)
    if math.isclose(e.low, e.high, rel_tol=1e-3):
        return value
    return f"{value} [{compact(e.low)}, {compact(e.high)}]"


def coordinates_picture(
    points: Tensor, *, title: str = "Principal coordinates", targets: Tensor | None = None
) -> str:
    """Samples in the first two coordinates of a representation, as SVG.

    Args:
        points: A row a sample, from `survey.bottleneck.coordinates` or a network of a sweep.
        title: What they are.
        targets: Colours: by class, or from the least value (blue) to the largest (red) of the
            first column.
    """
    points = points[:, :2].double()
    if points.shape[1] < 2:
        points = torch.cat([points, torch.zeros_like(points)], dim=1)
    low, high = points.min(0).values, points.max(0).values
    span = (high - low).clamp(min=1e-300)
    places = MARGIN + (points - low) / span * (SIDE - 2 * MARGIN)
    colours = _colours(targets, len(points))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{SIDE - y:.1f}" r="3" fill="{c}" fill-opacity="0.75"/>'
        for (x, y), c in zip(places.tolist(), colours, strict=True)
    )
    ends = [f"{compact(low[i].item())} to {compact(high[i].item())}" for i in (0, 1)]
    title = escape(printable(title))
    text = 'fill="#333" font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}" role="img" '
        f'style="background: white"><title>{title}</title>'
        f'<text x="{MARGIN}" y="20" {text}>{title}</text>{dots}'
        f'<text x="{MARGIN}" y="{SIDE - 10}" {text}>first coordinate, {ends[0]}</text>'
        f'<text x="14" y="{SIDE - MARGIN}" {text} transform="rotate(-90 14 {SIDE - MARGIN})">'
        f"second coordinate, {ends[1]}</text></svg>\n"
    )


def _colours(targets: Tensor | None, count: int) -> list[str]:
    if targets is None or len(targets) != count:
        return [COLOURS[0]] * count
    if not targets.is_floating_point():
        return [COLOURS[int(c) % len(COLOURS)] for c in targets.flatten()[:count]]
    values = targets.reshape(count, -1)[:, 0].double()
    span = float(values.max() - values.min()) or 1.0
    shares = ((values - values.min()) / span).tolist()
    return [f"rgb({round(255 * s)},80,{round(255 * (1 - s))})" for s in shares]

"""A picture of samples in two coordinates."""

from html import escape

import torch
from torch import Tensor

from sigmascope.gate import printable
from sigmascope.report.terminal.numbers import compact

SIDE, MARGIN = 480, 40  # of the picture, in pixels
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


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

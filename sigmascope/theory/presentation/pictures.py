"""Results as pictures."""

from html import escape

import torch
from torch import Tensor

from sigmascope.core.guard import Refusal, printable
from sigmascope.report.console import compact
from sigmascope.theory.neuron_graph import TreeNetwork

__all__ = ["coordinates_picture", "tree_picture"]

# ------------------------------------------------------------------------------
# A picture of samples in two coordinates.


SIDE, MARGIN = 480, 40  # of the picture, in pixels
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


def coordinates_picture(
    points: Tensor, *, title: str = "Principal coordinates", targets: Tensor | None = None
) -> str:
    """Samples in the first two coordinates of a representation, as SVG.

    Args:
        points: A row a sample, from `theory.bottleneck.coordinates` or a network of a sweep.
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
    count = len(points)
    if targets is None or len(targets) != count:
        colours = [COLOURS[0]] * count
    elif not targets.is_floating_point():
        colours = [COLOURS[int(c) % len(COLOURS)] for c in targets.flatten()[:count]]
    else:
        values = targets.reshape(count, -1)[:, 0].double()
        width = float(values.max() - values.min()) or 1.0
        shares = ((values - values.min()) / width).tolist()
        colours = [f"rgb({round(255 * s)},80,{round(255 * (1 - s))})" for s in shares]
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


# ------------------------------------------------------------------------------
# A picture of an unrolled network.


MOST = 400  # vertices that can still be told apart
STEP_X, STEP_Y, BORDER = 26, 64, 30
KINDS = {(1.0, 1.0): "linear", (1.0, 0.0): "relu", (1.0, -1.0): "abs"}


def tree_picture(network: TreeNetwork, *, names: tuple[str, ...] = ()) -> str:
    """The tree as SVG: the output on top, a leaf for each path, edges by the sign of their weight.

    Args:
        network: From `theory.neuron_graph.tree_network` or `theory.neuron_graph.pull_back`.
        names: Of the inputs, in their order; x0, x1, ... if not given.

    Raises:
        Refusal: If there are too many vertices to be told apart.
    """
    tree = network.tree
    if len(tree.vertex) > MOST:
        raise Refusal(
            f"A picture shows a tree of at most {MOST} vertices, got {len(tree.vertex)} with "
            f"{len(tree.leaves)} paths. Take a smaller network, or one output of it."
        )
    # leaves side by side, every other vertex above the middle of its own
    children: dict[int, list[int]] = {}
    down = [0] * len(tree.vertex)
    for v in range(1, len(tree.vertex)):
        children.setdefault(tree.parent[v], []).append(v)
        down[v] = down[tree.parent[v]] + 1
    across = [0.0] * len(tree.vertex)
    column, stack = 0, [(0, False)]
    while stack:
        v, seen = stack.pop()
        mine = children.get(v, [])
        if not mine:
            across[v], column = float(column), column + 1
        elif seen:
            across[v] = (across[mine[0]] + across[mine[-1]]) / 2
        else:
            stack.append((v, True))
            stack.extend((c, False) for c in reversed(mine))
    width = BORDER * 2 + STEP_X * max(across)
    height = BORDER * 2 + STEP_Y * max(down)
    at = lambda v: (BORDER + STEP_X * across[v], BORDER + STEP_Y * down[v])
    # the input that each leaf is
    inputs = sorted({tree.vertex[leaf] for leaf in tree.leaves})
    known = {v: names[i] if i < len(names) else f"x{i}" for i, v in enumerate(inputs)}
    named = {leaf: known[tree.vertex[leaf]] for leaf in tree.leaves}
    below = range(1, len(tree.vertex))
    lines: list[str] = []
    for v in below:
        a = at(v)
        b = at(tree.parent[v])
        weight = float(network.weights[v])
        colour = "#1f6fb4" if weight > 0 else "#c0392b" if weight < 0 else "#bbbbbb"
        lines.append(
            f'<line x1="{a[0]:g}" y1="{a[1]:g}" x2="{b[0]:g}" y2="{b[1]:g}" stroke="{colour}">'
            f"<title>{weight:.4g}</title></line>"
        )
    dots: list[str] = []
    for v in (0, *below):
        (x, y), slopes, name = at(v), tree.slopes[v], named.get(v, "")
        said = name or KINDS.get(slopes, f"slopes {slopes[0]:g} and {slopes[1]:g}")
        title = f"<title>{escape(said)} (neuron {tree.vertex[v]})</title>"
        ink = 'fill="#fff" stroke="#333"'
        if name or slopes == (1.0, 1.0):
            place = f'x="{x - 5:g}" y="{y - 5:g}" width="10" height="10"'
            dots.append(f"<rect {place} {ink}>{title}</rect>")
        else:
            dots.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" {ink}>{title}</circle>')
        if name:
            dots.append(
                f'<text x="{x:g}" y="{y + 20:g}" text-anchor="middle">{escape(name)}</text>'
            )
    style = "font: 11px sans-serif; background: white"
    legend = (
        f'<text x="{BORDER}" y="{height + 6:g}" fill="#555">blue: weight above 0 · red: below · '
        "grey: 0 · round: with an activation · square: linear or input</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, 460):g}" '
        f'height="{height + 20:g}" style="{style}" role="img">'
        f"<title>{len(tree.leaves)} paths, {len(tree.vertex)} vertices</title>"
        f"{''.join(lines)}{''.join(dots)}{legend}</svg>\n"
    )

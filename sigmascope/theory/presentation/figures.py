"""What four papers prove, as figures."""

import math
from collections.abc import Sequence

import torch

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Verdict
from sigmascope.report.figures import (
    COLOURS,
    GREY,
    MARKS,
    Sheet,
    drawn,
    forest,
    heading,
    legend,
    line,
    places,
    plain,
    require_known,
    scaled,
    told,
)
from sigmascope.theory.bottleneck import Bottleneck, DepthSweep, Prediction
from sigmascope.theory.comparing import Comparison
from sigmascope.theory.landscape.conditioning import Landscape
from sigmascope.theory.landscape.curvature import Bends
from sigmascope.theory.landscape.surfaces import Regions, Surface
from sigmascope.theory.le2022.conservation import Conserved
from sigmascope.theory.presentation.results import MATRICES, Checks, Scenery

VERDICTS = {  # of a theorem
    Verdict.VIOLATED: COLOURS[1],
    Verdict.HOLDS: COLOURS[2],
    Verdict.CONSISTENT: COLOURS[0],
}
LAYER = (  # panels of a landscape: field, and whose number it is
    ("condition", "condition number"),
    ("layer_factor", "of what follows the layer"),
    ("data_factor", "of what the layer reads"),
    ("step_limit", "largest learning rate"),
)


@drawn.register
def _checks(found: Checks, sheet: Sheet, **more: object) -> None:
    """Both sides of each theorem with their intervals, those that are violated first."""
    require_known(more)
    order = [*VERDICTS, *(v for v in Verdict if v not in VERDICTS)]
    spoke = sorted(
        (c for c in found.checks if c.measured is not None and c.limit is not None),
        key=lambda c: order.index(c.verdict),
    )
    if not spoke:
        raise Refusal("No theorem speaks of this model, so that there is nothing to draw.")
    ax = forest(
        sheet,
        [(f"{c.theorem} · {c.site}", c.measured or Estimate.exactly(0.0)) for c in spoke],
        against=[c.limit for c in spoke],
        tones=[VERDICTS.get(c.verdict, GREY) for c in spoke],
    )
    for verdict in dict.fromkeys(c.verdict for c in spoke):
        ax.plot([], [], "o", color=VERDICTS.get(verdict, GREY), label=f"measured: {verdict}")
    ax.plot([], [], "s", color=GREY, markerfacecolor="white", label="its bound")
    legend(ax, outside=True)


@drawn.register
def _comparison(
    found: Comparison, sheet: Sheet, findings: Sequence[Finding] = (), **more: object
) -> None:
    """Every quantity before and after that moved by more than its intervals, the farthest first."""
    require_known(more)
    moved = [c for c in found.changes if c.moved] or list(found.changes)
    if not moved:
        raise Refusal("The two states have no quantity in common, so there is nothing to draw.")

    def far(value: float) -> float:
        return abs(math.log(value)) if 0 < value < math.inf else math.inf

    moved.sort(key=lambda c: far(c.factor), reverse=True)
    forest(
        sheet,
        [(f"{c.quantity} · {c.site}", c.before) for c in moved],
        against=[c.after for c in moved],
        names=("before", "after"),
    )


@drawn.register
def _conserved(found: Conserved, sheet: Sheet, **more: object) -> None:
    """The rate at which each balance changes on the example, beside what rounding makes of it."""
    require_known(more)
    every = [*found.broken, *found.invariants]
    if not every:
        raise Refusal("Nothing is conserved here that is known, so there is nothing to draw.")
    exact = lambda value: Estimate.exactly(abs(value))
    forest(
        sheet,
        [(f"{i.kind} · {' ~ '.join(i.tensors)}", exact(i.rate)) for i in every],
        against=[exact(i.tolerance) for i in every],
        tones=[COLOURS[1]] * len(found.broken) + [COLOURS[0]] * len(found.invariants),
        label="relative rate of change (dot) and what rounding allows (square)",
    )


@drawn.register
def _bottleneck(found: Bottleneck, sheet: Sheet, **more: object) -> None:
    """Every way in which dimensions were counted."""
    require_known(more)
    rows = [("(verdict) inner dimension", found.rank)]
    rows += [(f"{e.name} · {e.site}", e.estimate) for e in found.evidence]
    forest(sheet, rows)


@drawn.register
def _sweep(found: DepthSweep, sheet: Sheet, **more: object) -> None:
    """Dimensions and norms over depth, a colour for each penalty; hollow where it does not fit."""
    require_known(more)
    left, right = sheet.panels(2, height=2.4, across=2)
    for place, ridge in enumerate(dict.fromkeys(n.ridge for n in found.networks)):
        colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
        for n in (n for n in found.networks if n.ridge == ridge):
            face = {} if n.fits else {"markerfacecolor": "white"}
            middle, *ends = n.dimension
            left.plot([n.depth] * 2, ends, color=colour, linewidth=0.8)
            left.plot(n.depth, middle, mark, color=colour, markersize=4, **face)
            right.plot(n.depth, n.norm, mark, color=colour, markersize=4, **face)
        right.plot([], [], mark, color=colour, label=f"λ = {ridge:g}")
    for ax, words in ((left, "inner dimension"), (right, "squared norm of the weights")):
        heading(ax, words)
        ax.set_xlabel("depth")
    legend(right)


@drawn.register
def _prediction(found: Prediction, sheet: Sheet, **more: object) -> None:
    """How the second singular value falls with depth, and where it is numerically gone."""
    require_known(more)
    (ax,) = sheet.panels(1, height=2.4)
    end = max(found.depth, math.ceil(min(found.collapse.high, 10 * found.depth)), 2)
    xs = [end * i / 100 for i in range(101)]
    for gap, how in ((found.gap.low, ":"), (found.gap.value, "-"), (found.gap.high, ":")):
        ax.plot(xs, [math.exp(-gap * x) for x in xs], how, color=COLOURS[0], linewidth=1.2)
    ax.plot([], [], color=COLOURS[0], label="without normalisation")
    kept = found.surviving.value > 1
    ax.axhline(1 if kept else math.nan, color=COLOURS[2], label="with batch normalisation")
    ax.axvline(found.depth, color=GREY, linestyle="--", linewidth=0.8, label="depth of the design")
    ax.set(yscale="log", xlabel="layers")
    heading(ax, f"second over first singular value, width {found.width}")
    legend(ax)


@drawn.register
def _landscape(
    found: Landscape,
    sheet: Sheet,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
    **more: object,
) -> None:
    """Conditioning over the layers, a line for each variant of the model."""
    require_known(more)
    every = (found, *variants)
    sites = [*dict.fromkeys(layer.site for v in every for layer in v.layers)]
    if not sites:
        raise Refusal(
            "There must be a layer that could be measured to draw, got none; `skipped` says why."
        )
    for ax, (name, words) in zip(sheet.panels(len(LAYER), across=2), LAYER, strict=True):
        scaled(ax, [getattr(layer, name).value for v in every for layer in v.layers])
        for place, variant in enumerate(every):
            own = {layer.site: getattr(layer, name) for layer in variant.layers}
            colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
            values = [own.get(site) for site in sites]
            line(ax, range(len(sites)), values, colour=colour, name=variant.says, mark=mark)
        heading(ax, words)
        places(ax, sites)
    if variants:
        legend(sheet.figure.axes[0], outside=True)


@drawn.register
def _bends(found: Bends, sheet: Sheet, loss: str = "", **more: object) -> None:
    """Where the eigenvalues lie, and the ends of the spectrum for each part."""
    require_known(more)
    with_density = [p for p in found.parts if p.density is not None]
    if with_density:
        (ax,) = sheet.panels(1, height=2.4)
        ends = [float(v) for p in with_density if p.density for v in p.density.nodes.flatten()]
        scaled(ax, ends, axis="x")
        for place, part in enumerate(with_density):
            assert part.density is not None
            nodes = part.density.nodes.flatten()
            order = nodes.argsort()
            mass = part.density.weights.flatten()[order] / len(part.density.nodes)
            share = 1 - mass.cumsum(0) + mass
            colour = COLOURS[place % len(COLOURS)]
            ax.step(nodes[order].tolist(), share.tolist(), color=colour, label=told(part.site))
        ax.set(yscale="log", xlabel="eigenvalue", ylabel="share at least as large")
        heading(ax, f"{MATRICES[found.kind]} of {loss or found.loss}")
        legend(ax)
        return
    rows = [
        (f"{part.site} · {name}", estimate)
        for part in found.parts
        for name in ("top", "bottom", "trace", "frobenius")
        if (estimate := getattr(part, name)) is not None
    ]
    forest(sheet, rows, label=f"{MATRICES[found.kind]} of {loss or found.loss}")


@drawn.register
def _surface(found: Surface, sheet: Sheet, **more: object) -> None:
    """The loss on the plane as level lines, or over the line."""
    require_known(more)
    (ax,) = sheet.panels(1, height=min(sheet.width, 3.2) if found.along else 2.2)
    losses = found.losses.masked_fill(~found.losses.isfinite(), math.nan)
    if not found.along:
        scaled(ax, losses.flatten().tolist())
        ax.plot(found.xs.tolist(), losses[0].tolist(), color=COLOURS[0])
        ax.set(xlabel=told(found.across), ylabel="loss")
    else:
        least, most = losses.nan_to_num(math.inf).min(), losses.nan_to_num(-math.inf).max()
        decades = bool(least > 0 and most / least > 30)
        shown = losses.log10() if decades else losses
        drawing = ax.contourf(found.xs.tolist(), found.ys.tolist(), shown.numpy(), 16)
        bar = sheet.figure.colorbar(drawing, ax=ax)
        bar.set_label("loss (log10)" if decades else "loss")
        ax.plot(0, 0, "+", color="white", markersize=7)
        ax.set(xlabel=told(found.across), ylabel=told(found.along))
    plain([ax.xaxis.label, ax.yaxis.label])
    heading(ax, f"loss on {found.says}")


@drawn.register
def _regions(found: Regions, sheet: Sheet, **more: object) -> None:
    """The regions in which the network is affine, coloured by what it answers there."""
    require_known(more)
    from matplotlib.collections import LineCollection, PolyCollection

    (ax,) = sheet.panels(1, height=min(sheet.width, 3.6))
    part = found.partition
    many = part.outputs.shape[1] > 1
    classes = part.outputs.argmax(1) if many else (part.outputs[:, 0] > 0).long()
    faces = [COLOURS[int(c) % len(COLOURS)] for c in classes]
    shapes = [(p * found.half).numpy() for p in part.polygons]
    ax.add_collection(PolyCollection(shapes, facecolors=faces, alpha=0.35, edgecolors="none"))
    lines = [(c * found.half).numpy() for c in part.cuts]
    ax.add_collection(LineCollection(lines, colors="black", linewidths=0.4))
    at: torch.Tensor = found.at
    ax.plot(at[:, 0].tolist(), at[:, 1].tolist(), "o", color="black")
    for (x, y), sample in zip(at.tolist(), found.samples, strict=True):
        ax.annotate(str(sample), (x, y), (3, 3), textcoords="offset points")
    ends = (-found.half, found.half)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    heading(ax, f"{len(part.polygons)} regions on the plane through three samples")

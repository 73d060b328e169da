"""How well conditioned learning is, as text and as JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Estimate
from sigmascope.report.bends import curvature_form, curvature_parts
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import estimate_form
from sigmascope.report.numbers import compact
from sigmascope.report.payloads import thinned
from sigmascope.report.slices import regions_form, regions_parts, surface_form, surface_parts
from sigmascope.survey.landscape import Bends, Landscape, LayerCurvature, Regions, Surface

COLUMNS = (
    ("condition", "κ(Q): the longest over the shortest axis of the loss in this layer's weights"),
    ("layer_factor", "what the layers after it contribute: κ of M D over the samples"),
    ("data_factor", "what the layers before it contribute: κ of the features it reads"),
    ("top", "largest curvature"),
    ("step_limit", "learning rate above which this layer diverges, 2 / largest curvature"),
    ("flat", "directions in its weights along which the loss is flat"),
)
HEADS = ("condition", "layer factor", "data factor", "top", "step limit", "flat")


@dataclass(frozen=True, slots=True)
class Scenery:
    """What else was measured of the landscape, as far as it was asked for.

    Attributes:
        curvature: Eigenvalues of the Hessian or its kin.
        surface: The loss on a plane or a line through the weights.
        regions: The regions on a plane through input space.
    """

    curvature: Bends | None = None
    surface: Surface | None = None
    regions: Regions | None = None


def landscape_text(
    found: Sequence[Landscape],
    *,
    scenery: Scenery | None = None,
    loss: str = "",
    colour: bool = False,
    width: int = 100,
) -> str:
    """A table of the layers, and of what each variant would change.

    Args:
        found: The model as it is, and variants of it.
        scenery: What else was measured.
        loss: Name of the loss; squared error if none is given.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
    """
    seen = scenery or Scenery()
    parts = [*_parts(found, loss)]
    if seen.curvature is not None:
        parts += ["", *curvature_parts(seen.curvature, loss)]
    if seen.surface is not None:
        parts += ["", *surface_parts(seen.surface)]
    if seen.regions is not None:
        parts += ["", *regions_parts(seen.regions)]
    return rendered(parts, colour=colour, width=width)


def landscape_form(
    found: Sequence[Landscape], *, scenery: Scenery | None = None, loss: str = ""
) -> dict[str, Any]:
    """The same as strict JSON."""
    seen = scenery or Scenery()
    return {
        "schema": "sigmascope/landscape/1",
        "loss": loss or "squared error",
        "variants": [
            {
                "says": variant.says,
                "rho": variant.rho,
                "layers": [_layer_form(layer) for layer in variant.layers],
                "skipped": [{"site": s.site, "why": s.why} for s in variant.skipped],
            }
            for variant in found
        ],
        "curvature": None if seen.curvature is None else curvature_form(seen.curvature),
        "surface": None if seen.surface is None else surface_form(seen.surface),
        "regions": None if seen.regions is None else regions_form(seen.regions),
    }


def _layer_form(layer: LayerCurvature) -> dict[str, Any]:
    names = (*(name for name, _ in COLUMNS), "rate")
    return {
        "site": layer.site,
        "floor": layer.floor,
        "axes": thinned(layer.root.sigma.tolist()),
        **{name: estimate_form(getattr(layer, name)) for name in names},
    }


def _parts(found: Sequence[Landscape], loss: str) -> Iterator[RenderableType]:
    first = found[0]
    words = printable(first.says)
    yield Text(f"Conditioning of each layer under {loss or 'squared error'}, {words}", "bold")
    yield ""
    yield _layers(first)
    yield ""
    for head, (_, says) in zip(HEADS, COLUMNS, strict=True):
        yield Text(f"{head:>12}  {says}", "dim")
    yield ""
    yield Text(_worst(first))
    if len(found) > 1:
        yield ""
        yield Text("What it would be", "bold")
        yield ""
        yield _variants(found)
        yield ""
        yield Text(_best(found))
    if first.skipped:
        yield ""
        yield Text("Not measured", "bold")
        for skipped in first.skipped:
            yield Text(printable(f"{skipped.site}: {skipped.why}"), "dim")


def _layers(one: Landscape) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    grid.add_column("layer")
    for head in HEADS:
        grid.add_column(head, justify="right")
    for layer in one.layers:
        grid.add_row(printable(layer.site), *(_shown(getattr(layer, name)) for name, _ in COLUMNS))
    return grid


def _variants(found: Sequence[Landscape]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    grid.add_column("condition of")
    for variant in found:
        grid.add_column(variant.says, justify="right")
    for site in dict.fromkeys(layer.site for variant in found for layer in variant.layers):
        here = ({layer.site: layer.condition for layer in v.layers}.get(site) for v in found)
        grid.add_row(printable(site), *("·" if e is None else _shown(e) for e in here))
    return grid


def _shown(e: Estimate) -> str:
    return compact(e.value)


def _worst(one: Landscape) -> str:
    if not one.layers:
        return "No layer of this model has a loss that is quadratic in its weights."
    worst = max(one.layers, key=lambda layer: layer.condition.value)
    tightest = min(one.layers, key=lambda layer: layer.step_limit.value)
    square = worst.condition.value**2
    steps = math.log(10) / math.log1p(2 / (square - 1)) if square > 1 else 1.0
    return (
        f"Learning is worst conditioned in {printable(worst.site)}: "
        f"κ = {compact(worst.condition.value)}. "
        f"Gradient descent on this layer alone, at its best step, takes about {compact(steps)} "
        f"steps to reduce its slowest error tenfold. It diverges above a learning rate of "
        f"{compact(tightest.step_limit.value)}, in {printable(tightest.site)} first. "
        f"Axes more than {compact(worst.floor)} times the shortest count as flat: the model's "
        "arithmetic cannot tell."
    )


def _best(found: Sequence[Landscape]) -> str:
    most = [
        (max((layer.condition.value for layer in v.layers), default=float("inf")), v) for v in found
    ]
    least, best = min(most, key=lambda pair: pair[0])
    if best is found[0]:
        return "None of the variants has a better conditioned worst layer than the model as it is."
    return (
        f"The worst layer is best conditioned with {printable(best.says)}: κ = {compact(least)} "
        f"instead of {compact(most[0][0])}."
    )

"""How well conditioned learning is, the curvature of the loss, and slices through it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from rich.table import Table
from rich.text import Text
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.guard import printable
from sigmascope.linalg.krylov import Density
from sigmascope.records import Estimate
from sigmascope.records.encoding import encoded, strict
from sigmascope.report.console import Part, compact, matters, sparkline
from sigmascope.report.forms import form, json_form, some
from sigmascope.report.screens import Screen, grid, parts, section
from sigmascope.report.tables import columns, row_columns
from sigmascope.theory import riedi2022
from sigmascope.theory.landscape import Bend, Bends, Landscape, LayerCurvature, Regions, Surface

POINTS = 200  # of a spectrum on a page; all of them are in the JSON form
HEAD = 64  # of those, how many leading values are kept one by one
QUANTILES = 160  # at which a distribution is given
MATRICES: Mapping[str, str] = MappingProxyType(
    {
        "hessian": "Hessian",
        "gauss-newton": "Gauss-Newton matrix",
        "fisher": "Empirical Fisher matrix",
    }
)
LAYER_NUMBERS: Mapping[str, str] = MappingProxyType(  # of a landscape, with their meaning
    {
        "condition": "κ(Q): the longest over the shortest axis of the loss in this layer's weights",
        q.LAYER_FACTOR: "what the layers after it contribute: κ of M D over the samples",
        q.DATA_FACTOR: "what the layers before it contribute: κ of the features it reads",
        "top": "largest curvature",
        "step limit": "learning rate above which this layer diverges, 2 / largest curvature",
        "flat": "directions in its weights along which the loss is flat",
    }
)


@dataclass(frozen=True, slots=True)
class Scenery:
    """What else was measured of a landscape, as far as it was asked for.

    Attributes:
        curvature: Eigenvalues of the Hessian or its kin.
        surface: The loss on a plane or a line through the weights.
        regions: The regions on a plane through input space.
    """

    curvature: Bends | None = None
    surface: Surface | None = None
    regions: Regions | None = None


def thinned(sigma: list[float]) -> dict[str, Any]:
    """The leading values and an even choice of the rest, to six digits, with their indices."""
    chosen = list(range(len(sigma)))
    if len(sigma) > POINTS:
        step = (len(sigma) - 1 - HEAD) / (POINTS - HEAD - 1)
        chosen = chosen[:HEAD] + [round(HEAD + i * step) for i in range(POINTS - HEAD)]
    return {
        "count": len(sigma),
        "zeros": sigma.count(0.0),
        "at": [i + 1 for i in chosen],
        "sigma": [strict(float(f"{sigma[i]:.6g}")) for i in chosen],
    }


def distribution(density: Density) -> dict[str, Any]:
    """Share of eigenvalues up to each threshold, where the samples have their nodes."""
    nodes = density.nodes.flatten().sort().values
    at = torch.linspace(0, len(nodes) - 1, min(QUANTILES, len(nodes))).round().long()
    chosen = nodes[at].unique().tolist()
    found = [density.below(t) for t in chosen]
    return {
        "how": density.how,
        "risk": density.risk,
        "at": [float(f"{t:.9g}") for t in chosen],
        "below": [e.value for e in found],
        "low": [e.low for e in found],
        "high": [e.high for e in found],
    }


# ------------------------------------------------------------------------------
# How well conditioned learning is.


@parts.register
def _landscape(
    found: Landscape,
    screen: Screen,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
) -> Iterator[Part]:
    words, seen = printable(found.says), scenery or Scenery()
    yield Text(f"Conditioning of each layer under {printable(loss or found.loss)}, {words}", "bold")
    yield ""
    table = grid("layer", *LAYER_NUMBERS, right=[*LAYER_NUMBERS])
    for layer in found.layers:
        cells = (_shown(getattr(layer, head.replace(" ", "_"))) for head in LAYER_NUMBERS)
        table.add_row(printable(layer.site), *cells)
    yield table
    yield ""
    yield from (Text(f"{head:>12}  {says}", "dim") for head, says in LAYER_NUMBERS.items())
    yield ""
    if found.layers:
        worst = max(found.layers, key=lambda layer: layer.condition.value)
        tightest = min(found.layers, key=lambda layer: layer.step_limit.value)
        square = worst.condition.value**2
        steps = math.log(10) / math.log1p(2 / (square - 1)) if square > 1 else 1.0
        yield Text(
            f"Learning is worst conditioned in {printable(worst.site)}: "
            f"κ = {compact(worst.condition.value)}. "
            f"Gradient descent on this layer alone, at its best step, takes about {compact(steps)} "
            f"steps to reduce its slowest error tenfold. It diverges above a learning rate of "
            f"{compact(tightest.step_limit.value)}, in {printable(tightest.site)} first. "
            f"Axes more than {compact(worst.floor)} times the shortest count as flat: the model's "
            "arithmetic cannot tell."
        )
    else:
        yield Text("No layer of this model has a loss that is quadratic in its weights.")
    if variants:
        every = (found, *variants)
        heads = [variant.says for variant in every]
        table = grid("condition of", *heads, right=heads)
        for site in dict.fromkeys(layer.site for variant in every for layer in variant.layers):
            here = ({layer.site: layer.condition for layer in v.layers}.get(site) for v in every)
            table.add_row(printable(site), *("·" if e is None else _shown(e) for e in here))
        most = [max((layer.condition.value for layer in v.layers), default=math.inf) for v in every]
        best = most.index(min(most))
        said = (
            f"The worst layer is best conditioned with {printable(heads[best])}: "
            f"κ = {compact(most[best])} instead of {compact(most[0])}."
            if best
            else "None of the variants has a better conditioned worst layer than the model as it "
            "is."
        )
        yield from section("What it would be", "", table, "", Text(said))
    if found.skipped:
        why = (Text(printable(f"{s.site}: {s.why}"), "dim") for s in found.skipped)
        yield from section("Not measured", *why)
    if seen.curvature is not None:
        yield from ("", *parts(seen.curvature, screen, loss))
    for slice_ in filter(None, (seen.surface, seen.regions)):
        yield from ("", *parts(slice_, screen))


def _shown(e: Estimate) -> str:
    return compact(e.value)


# ------------------------------------------------------------------------------
# The curvature of the loss.


SIZES = ("top", "bottom", "trace", "frobenius")
SHARES = ("upwards", "downwards")
UNASKED = "-"
DOUBTFUL = 1e-3  # relative difference from finite differences above which a warning is due


@parts.register
def _curvature(bends: Bends, _: Screen, loss: str = "") -> Iterator[Part]:
    """A table of the eigenvalues, and what they mean for the learning rate."""
    yield Text(f"{MATRICES[bends.kind]} of {printable(loss or bends.loss)}", "bold")
    yield ""
    heads = ("number", "largest", "smallest", "trace", "Frobenius", "up", "down")
    table = grid("weights of", *heads, right=heads)
    for column in table.columns[1:]:
        column.no_wrap = True
    for part in bends.parts:
        cells = [printable(part.site), str(part.parameters)]
        for e in (getattr(part, name) for name in SIZES):
            # the value, with the farther end of its interval where that matters
            if e is None:
                cells.append(UNASKED)
            elif matters(e):
                off = max(e.high - e.value, e.value - e.low)
                cells.append(f"{compact(e.value, digits=3)} ± {compact(off, digits=1)}")
            else:
                cells.append(compact(e.value))
        for e in (getattr(part, name) for name in SHARES):
            # the percentages between which it is
            if e is None:
                cells.append(UNASKED)
                continue
            low, high = (f"{100 * end:.{0 if end > 0.1 else 1}f}" for end in (e.low, e.high))
            cells.append(f"{low} %" if low == high else f"{low} to {high} %")
        table.add_row(*cells)
    yield table
    yield ""
    if any(part.density for part in bends.parts):
        yield Text("up, down: share of eigenvalues beyond ±1/1000 of the largest in size", "dim")
    yield Text(f"{sum(part.products for part in bends.parts)} products with the matrix", "dim")
    yield ""
    tops = [(p.top.value, p.site) for p in bends.parts if p.top is not None]
    top, site = max(tops, default=(0.0, ""))
    words: list[str] = []
    if top > 0:
        words.append(
            f"Gradient descent on these weights diverges above a learning rate of "
            f"{compact(2 / top)} (2 over the largest eigenvalue, {printable(site)})."
        )
    if bends.check is None:
        words.append("Second derivatives were not checked: that was not asked for.")
    elif bends.check.gap <= DOUBTFUL:
        words.append(f"Second derivatives agree with finite differences to {bends.check.gap:.0e}.")
    else:
        words.append(
            f"Second derivatives differ from finite differences by {bends.check.gap:.0e}: a module "
            "has a backward that is not its derivative, computes in low precision, or sits on a "
            "kink (a zero bias below an input of zeros). Do not trust these numbers before that is "
            "known."
        )
    yield Text(" ".join(words))


# ------------------------------------------------------------------------------
# Slices through the space of weights and the space of inputs.


WIDTH = 60  # of a curve


@parts.register
def _surface(surface: Surface, _: Screen) -> Iterator[Part]:
    """The loss along the axes, from end to end."""
    yield Text(printable(f"Loss on {surface.says}"), "bold")
    yield ""
    yield from _curve(surface.across, surface.xs, surface.losses[surface.ys.abs().argmin()])
    if surface.along:
        yield from _curve(surface.along, surface.ys, surface.losses[:, surface.xs.abs().argmin()])
    finite = surface.losses[surface.losses.isfinite()]
    away = int(surface.losses.numel() - finite.numel())
    here = surface.losses[surface.ys.abs().argmin(), surface.xs.abs().argmin()].item()
    least = finite.min().item() if len(finite) else float("nan")
    most = finite.max().item() if len(finite) else float("nan")
    beyond = f"; not finite at {away} of {surface.losses.numel()} points" if away else ""
    yield Text(
        f"{compact(here)} at the model, from {compact(least)} to {compact(most)} on the "
        f"{'plane' if surface.along else 'line'}{beyond}."
    )


def _curve(name: str, at: Tensor, losses: Tensor) -> Iterator[Text]:
    ends = f"{compact(at[0].item())} to {compact(at[-1].item())}"
    yield Text(f"{sparkline(losses.tolist(), width=WIDTH)}  {name}, {ends}")


@parts.register
def _regions(regions: Regions, _: Screen) -> Iterator[Part]:
    """How many regions there are after each activation."""
    found = regions.partition
    yield Text("Regions of the input space", "bold")
    yield ""
    yield Text(
        f"The plane through samples {', '.join(map(str, regions.samples))} meets "
        f"{len(found.polygons)} regions in a square of side {compact(2 * regions.half)}. After "
        f"each activation: {', '.join(map(str, found.counts)) or 'none bends it'}."
    )


# ------------------------------------------------------------------------------
# How large weights may be.


LAWS = {
    "concentration": "concentration of measure, at every width",
    "tracy-widom": "the law of Tracy and Widom, up to its error at finite width",
}


@parts.register
def _scale(
    found: riedi2022.random_weights.WeightScale,
    _: Screen,
    *,
    units: int,
    condition: float,
    probability: float,
) -> Iterator[Part]:
    """Three limits on the weights of a residual layer, and where usual initialisations lie."""
    yield Text(
        f"A residual layer of {units} units keeps its condition number below {condition:g}, "
        "whatever units are on, if",
        "bold",
    )
    yield ""
    grid = Table(box=None, pad_edge=False, show_header=False)
    for says, value, sure in (
        ("its Gaussian weights have a standard deviation of at most", found.std, probability),
        ("no weight is larger in size than", found.entry, 1.0),
        ("its spectral norm is at most", found.norm, 1.0),
    ):
        chance = "surely" if sure == 1 else f"with a chance of {sure:g}"
        grid.add_row(says, compact(value), Text(chance, "dim"))
    yield grid
    yield ""
    usual = (
        ("PyTorch's default", 1 / math.sqrt(3 * units)),
        ("Xavier's", 1 / math.sqrt(units)),
        ("He's", math.sqrt(2 / units)),
    )
    times = ", ".join(f"{name} {compact(std / found.std, digits=2)}" for name, std in usual)
    yield Text(f"In units of that standard deviation, usual initialisations have: {times}.")
    yield Text(f"The norm of Gaussian weights is bounded by {LAWS[found.how]}.", "dim")


# ------------------------------------------------------------------------------
# The same as strict JSON, and as rows.


@form.register
def _landscape_form(
    found: Landscape,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
) -> dict[str, Any]:
    seen = scenery or Scenery()
    measured: list[dict[str, Any]] = []
    for each in (found, *variants):
        names = ("site", "floor", *(title.replace(" ", "_") for title in LAYER_NUMBERS), "rate")
        skipped = [some(s, "site", "why") for s in each.skipped]
        measured.append(
            {
                **some(each, "says", "rho"),
                "layers": [
                    {**some(layer, *names), "axes": thinned(layer.root.sigma.tolist())}
                    for layer in each.layers
                ],
                "skipped": skipped,
            }
        )
    return {
        "schema": "sigmascope/landscape/1",
        "loss": loss or found.loss,
        "variants": measured,
        "curvature": None if seen.curvature is None else json_form(seen.curvature),
        "surface": None if seen.surface is None else json_form(seen.surface),
        "regions": None if seen.regions is None else json_form(seen.regions),
    }


@form.register
def _curvature_form(bends: Bends) -> dict[str, Any]:
    parts = [
        {**encoded(p), "density": None if p.density is None else distribution(p.density)}
        for p in bends.parts
    ]
    return {
        "schema": "sigmascope/curvature/1",
        **encoded(bends),
        "title": MATRICES[bends.kind],
        "parts": parts,
    }


@form.register
def _regions_form(regions: Regions) -> dict[str, Any]:
    """The polygons; coordinates are in half sides of the square."""
    found = regions.partition
    many = found.outputs.shape[1] > 1
    classes = found.outputs.argmax(1) if many else (found.outputs[:, 0] > 0).long()
    rounded = lambda each: [[round(v, 6) for v in x.flatten().tolist()] for x in each]
    return {
        "schema": "sigmascope/regions/1",
        **some(regions, "samples", "at", "half"),
        **some(found, "counts", "by"),
        "activations": list(found.names),
        "polygons": rounded(found.polygons),
        "classes": classes.tolist(),
        "cuts": rounded(found.cuts),
    }


@columns.register
def _landscape_columns(found: Landscape) -> dict[str, list[Any]]:
    return row_columns(LayerCurvature, found.layers)


@columns.register
def _curvature_columns(bends: Bends) -> dict[str, list[Any]]:
    return row_columns(Bend, bends.parts)

"""Slices through the space of weights and the space of inputs, as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from sigmascope.gate import printable
from sigmascope.report.forms import strict
from sigmascope.report.numbers import compact
from sigmascope.report.sparklines import sparkline
from sigmascope.survey.landscape import Regions, Surface

WIDTH = 60  # of a curve


def surface_parts(surface: Surface) -> Iterator[RenderableType]:
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


def surface_form(surface: Surface) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "says": surface.says,
        "across": surface.across,
        "along": surface.along,
        "xs": surface.xs.tolist(),
        "ys": surface.ys.tolist(),
        "losses": [[strict(v) for v in row] for row in surface.losses.tolist()],
    }


def regions_parts(regions: Regions) -> Iterator[RenderableType]:
    """How many regions there are after each activation."""
    found = regions.partition
    yield Text("Regions of the input space", "bold")
    yield ""
    yield Text(
        f"The plane through samples {', '.join(map(str, regions.samples))} meets "
        f"{len(found.polygons)} regions in a square of side {compact(2 * regions.half)}. After "
        f"each activation: {', '.join(map(str, found.counts)) or 'none bends it'}."
    )


def regions_form(regions: Regions) -> dict[str, Any]:
    """The polygons as strict JSON; coordinates in half sides of the square."""
    found = regions.partition
    many = found.outputs.shape[1] > 1
    classes = found.outputs.argmax(1) if many else (found.outputs[:, 0] > 0).long()
    return {
        "samples": list(regions.samples),
        "at": regions.at.tolist(),
        "half": regions.half,
        "counts": list(found.counts),
        "activations": list(found.names),
        "polygons": [_rounded(p.flatten()) for p in found.polygons],
        "classes": classes.tolist(),
        "cuts": [_rounded(c.flatten()) for c in found.cuts],
        "by": found.by.tolist(),
    }


def _rounded(values: Tensor) -> list[float]:
    return [round(v, 6) for v in values.tolist()]

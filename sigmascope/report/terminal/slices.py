"""Slices through the space of weights and the space of inputs."""

from collections.abc import Iterator

from rich.text import Text
from torch import Tensor

from sigmascope.gate import printable
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, parts
from sigmascope.report.terminal.sparklines import sparkline
from sigmascope.survey.landscape import Regions, Surface

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

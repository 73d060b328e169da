"""What is predicted of a design."""

import math
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from sigmascope.report.results import Checks, predicted
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import measured
from sigmascope.report.terminal.screens import Screen, parts, section
from sigmascope.survey.bottleneck import Prediction


@parts.register
def _prediction(found: Prediction, screen: Screen) -> Iterator[Part]:
    skip = "no skip connections" if math.isinf(found.gamma) else f"gamma {found.gamma:g}"
    yield Text(
        f"Random linear layers of width {found.width}, depth {found.depth}, {skip}, "
        f"{found.chain.weights} weights.",
        "bold",
    )
    yield ""
    yield Text(f"Without normalisation: {_without(found)}")
    yield Text(f"With batch normalisation: {_with(found)}")
    yield Text(
        "Layers are linear here; rectifiers make networks without normalisation collapse sooner. "
        "`sigmascope profile` measures one that is built.",
        "dim",
    )
    yield ""
    grid = Table.grid(padding=(0, 2))
    for name, estimate, says in predicted(found):
        grid.add_row(Text(name), Text(measured(estimate)), Text(says, "dim"))
    yield grid
    yield from section("Theorems", *parts(Checks(found.checks), screen))


def _without(found: Prediction) -> str:
    after = f"about {found.collapse.value:.0f} layers"
    if found.collapse.value <= found.depth:
        return (
            f"collapses. The second singular value is numerically gone after {after} "
            f"({found.collapse.low:.0f} to {found.collapse.high:.0f}), before the "
            f"{found.depth} of the design."
        )
    return (
        f"does not collapse within {found.depth} layers, where the second singular value is about "
        f"{found.ratio.value:.2g} of the first; it would be numerically gone after {after}."
    )


def _with(found: Prediction) -> str:
    ratio = found.chain.participation_ratio
    if found.surviving.value <= 1:
        return "collapses all the same: one direction survives."
    return (
        f"{found.surviving.value:.0f} of {found.width} directions survive at any depth, and "
        f"samples use {ratio.value:.3g} of them evenly (participation ratio, averaged over depth)."
    )

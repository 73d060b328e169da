"""How large weights may be, as text and as JSON."""

import math
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.report.consoles import rendered
from sigmascope.report.numbers import compact
from sigmascope.theory import riedi2022

LAWS = {
    "concentration": "concentration of measure, at every width",
    "tracy-widom": "the law of Tracy and Widom, up to its error at finite width",
}


def scale_text(
    found: riedi2022.random_weights.WeightScale,
    *,
    width_of_layer: int,
    condition: float,
    probability: float,
    colour: bool = False,
    width: int = 100,
) -> str:
    """Three limits on the weights of a residual layer, and where usual initialisations lie.

    Args:
        found: The limits.
        width_of_layer: Units of the layer.
        condition: The wanted condition number.
        probability: With which Gaussian weights keep to it.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
    """
    parts = _parts(found, width_of_layer, condition, probability)
    return rendered(parts, colour=colour, width=width)


def scale_form(found: riedi2022.random_weights.WeightScale) -> dict[str, Any]:
    """The limits as strict JSON."""
    return {
        "schema": "sigmascope/scale/1",
        "std": found.std,
        "entry": found.entry,
        "norm": found.norm,
        "how": found.how,
    }


def _parts(
    found: riedi2022.random_weights.WeightScale, units: int, condition: float, probability: float
) -> Iterator[RenderableType]:
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

"""How large weights may be."""

import math
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, parts
from sigmascope.theory import riedi2022

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

"""A sweep over depth."""

from collections.abc import Iterator

from rich.text import Text

from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, grid, parts
from sigmascope.survey.bottleneck import DepthSweep, Trained


@parts.register
def _sweep(found: DepthSweep, _: Screen) -> Iterator[Part]:
    yield Text(found.says, "bold")
    yield ""
    ridges = len({n.ridge for n in found.networks}) > 1
    numbers = ("uses", "passes", "‖θ‖²", "cost", "NTK trace / depth", "")
    titles = ("depth", *(["ridge"] * ridges), *numbers)
    table = grid(*titles, right=titles)
    for n in found.networks:
        ranks = _rank(n.dimension), _rank(n.rank)
        place = (str(n.depth), *([compact(n.ridge)] * ridges))
        table.add_row(*place, *ranks, *_numbers(n), n.kind if n.fits else "does not fit")
    yield table


def _rank(rank: tuple[int, int, int]) -> str:
    value, low, high = rank
    return str(value) if low == high else f"{value} [{low}, {high}]"


def _numbers(n: Trained) -> tuple[str, str, str]:
    return compact(n.norm), compact(n.cost, digits=3), compact(n.tangent, digits=3)

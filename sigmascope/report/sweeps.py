"""A sweep over depth, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.report.consoles import rendered
from sigmascope.report.forms import estimate_form
from sigmascope.report.numbers import compact
from sigmascope.survey.bottleneck import DepthSweep, Trained


def sweep_text(found: DepthSweep, *, colour: bool = False, width: int = 100) -> str:
    """Which dimension the task has, and every network behind it.

    Args:
        found: From `survey.bottleneck.depth_sweep`.
        colour: Whether to use terminal colours.
        width: Columns of the terminal.
    """
    return rendered(_parts(found), colour=colour, width=width)


def sweep_form(found: DepthSweep) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "schema": "sigmascope/sweep/1",
        "rank": estimate_form(found.rank),
        "says": found.says,
        "networks": [
            asdict(n) | {"rank": list(n.rank), "dimension": list(n.dimension), "kind": n.kind}
            for n in found.networks
        ],
        "segments": [
            {
                "ridge": s.ridge,
                "rank": s.rank,
                "depths": list(s.depths),
                "slope": estimate_form(s.slope),
                "offset": s.offset,
                "tangent": s.tangent,
                "fits": s.fits,
            }
            for s in found.segments
        ],
    }


def _network(n: Trained) -> dict[str, Any]:
    return asdict(n) | {"rank": [*n.rank], "dimension": [*n.dimension], "kind": n.kind}


def _parts(found: DepthSweep) -> Iterator[RenderableType]:
    yield Text(found.says, "bold")
    yield ""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    ridges = len({n.ridge for n in found.networks}) > 1
    for title in (
        "depth",
        *(["ridge"] * ridges),
        "uses",
        "passes",
        "‖θ‖²",
        "cost",
        "NTK trace / depth",
        "",
    ):
        grid.add_column(title, justify="right", header_style="dim")
    for n in found.networks:
        ranks = _rank(n.dimension), _rank(n.rank)
        place = (str(n.depth), *([compact(n.ridge)] * ridges))
        grid.add_row(*place, *ranks, *_numbers(n), n.kind if n.fits else "does not fit")
    yield grid


def _rank(rank: tuple[int, int, int]) -> str:
    value, low, high = rank
    return str(value) if low == high else f"{value} [{low}, {high}]"


def _numbers(n: Trained) -> tuple[str, str, str]:
    return compact(n.norm), compact(n.cost, digits=3), compact(n.tangent, digits=3)

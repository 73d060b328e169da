"""The inner dimension of a network."""

import math
from collections.abc import Iterator

from rich.text import Text

from sigmascope.diagnosis import Bottleneck, Evidence
from sigmascope.gate import printable
from sigmascope.records import Estimate
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, grid, parts

NAME = 40  # columns that a name is given


@parts.register
def _bottleneck(found: Bottleneck, _: Screen) -> Iterator[Part]:
    yield Text(f"{found.kind.upper()}  {printable(found.says)}", "bold")
    yield ""
    whole = grid()
    for e in found.evidence:
        if e.site == "(network)":
            whole.add_row(e.name, _number(e.estimate), Text(e.says, "dim"))
    yield whole
    yield ""
    titles = ("layer", "passes on", "rank of its weight")
    layers = grid(*titles, right=titles[1:])
    by_site: dict[str, dict[str, Evidence]] = {}
    for e in found.evidence:
        if e.site != "(network)":
            by_site.setdefault(e.site, {})[e.name] = e
    for site, named in by_site.items():
        cells = [_maybe(named.get(name)) for name in ("written rank", "relative weight rank")]
        narrow = "bold" if site in found.layers else ""
        layers.add_row(Text(shortened(printable(site), NAME), narrow), *cells)
    yield layers


def _maybe(e: Evidence | None) -> str:
    return "" if e is None else _number(e.estimate)


def _number(e: Estimate) -> str:
    value = compact(e.value)
    if math.isclose(e.low, e.high, rel_tol=1e-3):
        return value
    return f"{value} [{compact(e.low)}, {compact(e.high)}]"

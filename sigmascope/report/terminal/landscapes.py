"""How well conditioned learning is."""

import math
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Estimate
from sigmascope.report.results import LAYER_NUMBERS, Scenery
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact
from sigmascope.report.terminal.screens import Screen, grid, parts, section
from sigmascope.survey.landscape import Landscape


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
    yield _layers(found)
    yield ""
    yield from (Text(f"{head:>12}  {says}", "dim") for head, says in LAYER_NUMBERS.items())
    yield ""
    yield Text(_worst(found))
    if variants:
        every = (found, *variants)
        yield from section("What it would be", "", _variants(every), "", Text(_best(every)))
    if found.skipped:
        why = (Text(printable(f"{s.site}: {s.why}"), "dim") for s in found.skipped)
        yield from section("Not measured", *why)
    if seen.curvature is not None:
        yield from ("", *parts(seen.curvature, screen, loss))
    for slice_ in filter(None, (seen.surface, seen.regions)):
        yield from ("", *parts(slice_, screen))


def _layers(one: Landscape) -> Table:
    table = grid("layer", *LAYER_NUMBERS, right=[*LAYER_NUMBERS])
    for layer in one.layers:
        cells = (_shown(getattr(layer, head.replace(" ", "_"))) for head in LAYER_NUMBERS)
        table.add_row(printable(layer.site), *cells)
    return table


def _variants(found: Sequence[Landscape]) -> Table:
    heads = [variant.says for variant in found]
    table = grid("condition of", *heads, right=heads)
    for site in dict.fromkeys(layer.site for variant in found for layer in variant.layers):
        here = ({layer.site: layer.condition for layer in v.layers}.get(site) for v in found)
        table.add_row(printable(site), *("·" if e is None else _shown(e) for e in here))
    return table


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

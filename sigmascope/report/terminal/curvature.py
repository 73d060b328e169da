"""The curvature of the loss."""

from collections.abc import Iterator

from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Estimate
from sigmascope.report.results import MATRICES
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact, matters
from sigmascope.report.terminal.screens import Screen, grid, parts
from sigmascope.survey.landscape import Bends

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
        sizes = (_give_or_take(getattr(part, name)) for name in SIZES)
        shares = (_range(getattr(part, name)) for name in SHARES)
        table.add_row(printable(part.site), str(part.parameters), *sizes, *shares)
    yield table
    yield ""
    if any(part.density for part in bends.parts):
        yield Text("up, down: share of eigenvalues beyond ±1/1000 of the largest in size", "dim")
    yield Text(f"{sum(part.products for part in bends.parts)} products with the matrix", "dim")
    yield ""
    yield Text(_meaning(bends))


def _give_or_take(e: Estimate | None) -> str:
    """The value, with the farther end of its interval where that matters."""
    if e is None:
        return UNASKED
    off = max(e.high - e.value, e.value - e.low)
    if not matters(e):
        return compact(e.value)
    return f"{compact(e.value, digits=3)} ± {compact(off, digits=1)}"


def _range(e: Estimate | None) -> str:
    """A share, as the percentages between which it is."""
    if e is None:
        return UNASKED
    low, high = (f"{100 * end:.{0 if end > 0.1 else 1}f}" for end in (e.low, e.high))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _meaning(bends: Bends) -> str:
    tops = [(p.top.value, p.site) for p in bends.parts if p.top is not None]
    top, site = max(tops, default=(0.0, ""))
    words = []
    if top > 0:
        words.append(
            f"Gradient descent on these weights diverges above a learning rate of "
            f"{compact(2 / top)} (2 over the largest eigenvalue, {printable(site)})."
        )
    if bends.check is None:
        return " ".join([*words, "Second derivatives were not checked: that was not asked for."])
    gap = f"{bends.check.gap:.0e}"
    if bends.check.gap <= DOUBTFUL:
        words.append(f"Second derivatives agree with finite differences to {gap}.")
    else:
        words.append(
            f"Second derivatives differ from finite differences by {gap}: a module has a backward "
            "that is not its derivative, computes in low precision, or sits on a kink (a zero bias "
            "below an input of zeros). Do not trust these numbers before that is known."
        )
    return " ".join(words)

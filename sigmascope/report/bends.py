"""The curvature of the loss, as text and as JSON."""

from collections.abc import Iterator
from typing import Any

import torch
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.linalg.krylov import Density
from sigmascope.records import Estimate
from sigmascope.report.forms import estimate_form, strict
from sigmascope.report.numbers import compact, matters
from sigmascope.survey.landscape import Bend, Bends

TITLES = {
    "hessian": "Hessian",
    "gauss-newton": "Gauss-Newton matrix",
    "fisher": "Empirical Fisher matrix",
}
SIZES = ("top", "bottom", "trace", "frobenius")
SHARES = ("upwards", "downwards")
DOUBTFUL = 1e-3  # relative difference from finite differences above which a warning is due
POINTS = 160  # at which a distribution is given


def curvature_parts(bends: Bends, loss: str) -> Iterator[RenderableType]:
    """A table of the eigenvalues, and what they mean for the learning rate."""
    yield Text(f"{TITLES[bends.kind]} of {loss or 'squared error'}", "bold")
    yield ""
    grid = Table(box=None, pad_edge=False, header_style="dim")
    grid.add_column("weights of")
    for head in ("number", "largest", "smallest", "trace", "Frobenius", "up", "down"):
        grid.add_column(head, justify="right", no_wrap=True)
    for part in bends.parts:
        sizes = (_give_or_take(getattr(part, name)) for name in SIZES)
        shares = (_range(getattr(part, name)) for name in SHARES)
        grid.add_row(printable(part.site), str(part.parameters), *sizes, *shares)
    yield grid
    yield ""
    yield Text("up, down: share of eigenvalues beyond ±1/1000 of the largest in size", "dim")
    yield ""
    yield Text(_meaning(bends))


def _give_or_take(e: Estimate) -> str:
    """The value, with the farther end of its interval where that matters."""
    off = max(e.high - e.value, e.value - e.low)
    if not matters(e):
        return compact(e.value)
    return f"{compact(e.value, digits=3)} ± {compact(off, digits=1)}"


def _range(e: Estimate) -> str:
    """A share, as the percentages between which it is."""
    low, high = (f"{100 * end:.{0 if end > 0.1 else 1}f}" for end in (e.low, e.high))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _meaning(bends: Bends) -> str:
    sharpest = max(bends.parts, key=lambda p: p.top.value)
    words = []
    if sharpest.top.value > 0:
        words.append(
            f"Gradient descent on these weights diverges above a learning rate of "
            f"{compact(2 / sharpest.top.value)} (2 over the largest eigenvalue, "
            f"{printable(sharpest.site)})."
        )
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


def curvature_form(bends: Bends) -> dict[str, Any]:
    """The same as strict JSON, with the distribution of the eigenvalues."""
    return {
        "kind": bends.kind,
        "title": TITLES[bends.kind],
        "check": {"gap": strict(bends.check.gap), "step": bends.check.step},
        "parts": [_part(part) for part in bends.parts],
    }


def _part(part: Bend) -> dict[str, Any]:
    return {
        "site": part.site,
        "parameters": part.parameters,
        **{name: estimate_form(getattr(part, name)) for name in (*SIZES, *SHARES)},
        "density": _distribution(part.density),
    }


def _distribution(density: Density) -> dict[str, Any]:
    """Share of eigenvalues up to each threshold, where the samples have their nodes."""
    nodes = density.nodes.flatten().sort().values
    at = torch.linspace(0, len(nodes) - 1, min(POINTS, len(nodes))).round().long()
    chosen = nodes[at].unique()
    found = [density.below(t) for t in chosen.tolist()]
    return {
        "how": density.how,
        "risk": density.risk,
        "at": [float(f"{t:.9g}") for t in chosen.tolist()],
        "below": [e.value for e in found],
        "low": [e.low for e in found],
        "high": [e.high for e in found],
    }

"""What is predicted of a design, as text and as JSON."""

import math
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.records import Estimate
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import check_form, estimate_form
from sigmascope.report.numbers import measured
from sigmascope.report.theorems import checks_parts
from sigmascope.survey.bottleneck import Prediction


def prediction_text(found: Prediction, *, colour: bool = False, width: int = 100) -> str:
    """Two sentences, the numbers behind them, and the theorems."""
    return rendered(_parts(found), colour=colour, width=width)


def prediction_form(found: Prediction) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "schema": "sigmascope/prediction/1",
        "width": found.width,
        "depth": found.depth,
        "gamma": None if math.isinf(found.gamma) else found.gamma,
        "weights": found.chain.weights,
        "samples": found.chain.samples,
        "chains": found.chain.chains,
        "layers": found.chain.layers,
        "burn_in": found.chain.burn_in,
        **{name.replace(" ", "_"): estimate_form(e) for name, e, _ in _numbers(found)},
        "checks": [check_form(c) for c in found.checks],
    }


def _parts(found: Prediction) -> Iterator[RenderableType]:
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
    for name, estimate, says in _numbers(found):
        grid.add_row(Text(name), Text(measured(estimate)), Text(says, "dim"))
    yield grid
    yield ""
    yield Text("Theorems", "bold")
    yield from checks_parts(found.checks)


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


def _numbers(found: Prediction) -> tuple[tuple[str, Estimate, str], ...]:
    c = found.chain
    return (
        ("exponent gap", found.gap, "μ₁ - μ₂ per layer, without normalisation"),
        ("collapse depth", found.collapse, "layers to σ₂ ≤ width * 1e-7 σ₁"),
        ("singular ratio", found.ratio, "σ₂/σ₁ at this depth, without normalisation"),
        ("surviving directions", found.surviving, "Lyapunov exponents that are zero, normalised"),
        ("participation ratio", c.participation_ratio, "average over normalised layers"),
        ("soft rank", c.soft_rank, f"eigenvalues of M at least {c.tau:g}, average"),
        ("frobenius sq", c.frobenius_sq, "E‖M‖²"),
        ("regularity", c.regularity, "α = E Tr(diag(M²)²) / E Tr(M³)"),
    )

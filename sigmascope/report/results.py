"""What commands show together, and what their text, JSON and page have in common."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from sigmascope import quantities as q
from sigmascope.diagnosis import Treatment
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.diagnosis.remedies import NormalisationEffect
from sigmascope.linalg.krylov import Density
from sigmascope.records import Check, Estimate, Profile, Verdict
from sigmascope.records.encoding import strict
from sigmascope.survey.bottleneck import Prediction
from sigmascope.survey.landscape import Bends, Regions, Surface

POINTS = 200  # of a spectrum on a page; all of them are in the JSON form
HEAD = 64  # of those, how many leading values are kept one by one

QUANTILES = 160  # at which a distribution is given

MATRICES: Mapping[str, str] = MappingProxyType(
    {
        "hessian": "Hessian",
        "gauss-newton": "Gauss-Newton matrix",
        "fisher": "Empirical Fisher matrix",
    }
)
LAYER_NUMBERS: Mapping[str, str] = MappingProxyType(  # of a landscape, with their meaning
    {
        "condition": "κ(Q): the longest over the shortest axis of the loss in this layer's weights",
        q.LAYER_FACTOR: "what the layers after it contribute: κ of M D over the samples",
        q.DATA_FACTOR: "what the layers before it contribute: κ of the features it reads",
        "top": "largest curvature",
        "step limit": "learning rate above which this layer diverges, 2 / largest curvature",
        "flat": "directions in its weights along which the loss is flat",
    }
)
# what is shown before and after a remedy: quantity, form, and the end that tells most
CURVES: tuple[tuple[str, str, str], ...] = tuple(
    (each.name, "samples" if "representations" in each.views else "", each.compared)
    for each in q.quantities().values()
    if each.compared
)


@dataclass(frozen=True, slots=True)
class Checks:
    """Theorems that were checked on one model.

    Attributes:
        checks: From `theory.check`.
    """

    checks: tuple[Check, ...]


def spoke(checks: Iterable[Check]) -> bool:
    """Whether a theorem said something of this model: it applied at some place."""
    return any(c.verdict is not Verdict.INAPPLICABLE for c in checks)


@dataclass(frozen=True, slots=True)
class Trials:
    """Every remedy that was tried.

    Attributes:
        treatments: In the order to show them, the best first.
        declined: Reasons of those that do not apply, by name of remedy.
        normalisation: What the model's own batch normalisers do.
    """

    treatments: tuple[Treatment, ...]
    declined: Mapping[str, str]
    normalisation: NormalisationEffect | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Designs in order.

    Attributes:
        designs: From `diagnosis.ranking.rank`, the best first.
    """

    designs: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class Scenery:
    """What else was measured of a landscape, as far as it was asked for.

    Attributes:
        curvature: Eigenvalues of the Hessian or its kin.
        surface: The loss on a plane or a line through the weights.
        regions: The regions on a plane through input space.
    """

    curvature: Bends | None = None
    surface: Surface | None = None
    regions: Regions | None = None


def layer_values(profile: Profile, quantity: str, form: str) -> list[float]:
    """A quantity at every layer at which it was measured."""
    sites = {layer.site for layer in profile.layers}
    found = profile.series(quantity, form=form)
    return [r.estimate.value for r in found if r.site in sites]


def predicted(found: Prediction) -> tuple[tuple[str, Estimate, str], ...]:
    """What is foretold of a design: name, number, meaning."""
    c = found.chain
    return (
        ("exponent gap", found.gap, "μ₁ - μ₂ per layer, without normalisation"),
        ("collapse depth", found.collapse, "layers to σ₂ ≤ width * 1e-7 σ₁"),
        ("singular ratio", found.ratio, "σ₂/σ₁ at this depth, without normalisation"),
        ("surviving directions", found.surviving, "Lyapunov exponents that are zero, normalised"),
        (q.PARTICIPATION_RATIO, c.participation_ratio, "average over normalised layers"),
        (q.SOFT_RANK, c.soft_rank, f"eigenvalues of M at least {c.tau:g}, average"),
        ("frobenius sq", c.frobenius_sq, "E‖M‖²"),
        ("regularity", c.regularity, "α = E Tr(diag(M²)²) / E Tr(M³)"),
    )


def thinned(sigma: list[float]) -> dict[str, Any]:
    """The leading values and an even choice of the rest, to six digits, with their indices."""
    chosen = list(range(len(sigma)))
    if len(sigma) > POINTS:
        step = (len(sigma) - 1 - HEAD) / (POINTS - HEAD - 1)
        chosen = chosen[:HEAD] + [round(HEAD + i * step) for i in range(POINTS - HEAD)]
    return {
        "count": len(sigma),
        "zeros": sigma.count(0.0),
        "at": [i + 1 for i in chosen],
        "sigma": [strict(float(f"{sigma[i]:.6g}")) for i in chosen],
    }


def distribution(density: Density) -> dict[str, Any]:
    """Share of eigenvalues up to each threshold, where the samples have their nodes."""
    nodes = density.nodes.flatten().sort().values
    at = torch.linspace(0, len(nodes) - 1, min(QUANTILES, len(nodes))).round().long()
    chosen = nodes[at].unique().tolist()
    found = [density.below(t) for t in chosen]
    return {
        "how": density.how,
        "risk": density.risk,
        "at": [float(f"{t:.9g}") for t in chosen],
        "below": [e.value for e in found],
        "low": [e.low for e in found],
        "high": [e.high for e in found],
    }

"""What the page is given to draw."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sigmascope.quantities import EVERY, families, quantities
from sigmascope.records import Check, Finding, Profile, Reading, SiteSpectrum, Verdict
from sigmascope.records.encoding import encoded, strict
from sigmascope.report.causes import folded, headline
from sigmascope.report.forms import json_form
from sigmascope.report.results import thinned
from sigmascope.report.runs import COLUMNS, LEFT, chances, facts, runs
from sigmascope.report.tables import table

Curve = tuple[str, str, str]  # view, form, quantity

# What the theorems bound. The reading of a rank and the rank in a check may differ, each having a
# tolerance of its own, so that equal numbers alone do not find these.
_BOUNDED: Mapping[str, Curve] = MappingProxyType(
    {
        "rank-participation": ("representations", "samples", "matrix rank"),
        "soft-rank": ("representations", "samples", "soft rank"),
        "soft-rank-any-scale": ("representations", "samples", "soft rank"),
        "gradient-collinearity": ("gradients", "", "minimum |cos|"),
    }
)


def payload(profile: Profile, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The JSON form, readings by column, thinned spectra, and what panels and curves are of."""
    form = json_form(replace(profile, spectra=()), findings)
    readings = {name: encoded(column) for name, column in table(profile).items()}
    spectra = [_thinned(s) for s in profile.spectra]
    panels = [{"title": t, "quantities": names} for t, names in families().items()]
    drawn = {"views": EVERY, "families": panels, "bounds": list(_bounds(profile))}
    groups = {
        "cards": [{"cause": cause, "follow": rest} for cause, rest in folded(findings).items()],
        "headline": headline(findings) if findings else "",
        "chances": encoded(chances(profile)),
        "training": _training(profile),
        "meanings": {r.quantity: quantities()[r.quantity].says for r in _shown(findings)},
    }
    return form | {"readings": readings, "spectra": spectra, **drawn, **groups}


def _shown(findings: tuple[Finding, ...]) -> Iterator[Reading]:
    """The evidence whose meaning is told: of quantities that have one."""
    return (r for f in findings for r in f.evidence if r.quantity in quantities())


def _training(profile: Profile) -> dict[str, Any]:
    """The runs by column, what else was read of training, and what the columns mean."""
    cells = lambda run: [
        encoded(run.numbers[quantity]) if quantity in run.numbers else None for quantity in COLUMNS
    ]
    return {
        "columns": [{"title": t, "says": quantities()[q].says} for q, t in COLUMNS.items()],
        "runs": [{"form": run.form, "cells": cells(run)} for run in runs(profile)],
        "facts": [
            {"title": r.quantity, "says": quantities()[r.quantity].says, **encoded(r.estimate)}
            for r in facts(profile)
        ],
        "scale": LEFT,
    }


def _thinned(s: SiteSpectrum) -> dict[str, Any]:
    place = {"site": s.site, "view": s.view, "form": s.form, "how": s.spectrum.how}
    return {**place, "shape": list(s.spectrum.shape), **thinned(s.spectrum.sigma.tolist())}


def _bounds(profile: Profile) -> Iterator[dict[str, Any]]:
    """For each theorem that bounds a measured quantity: the curve it bounds, and its limits."""
    readings: dict[str, list[Reading]] = {}
    for r in profile.readings:
        readings.setdefault(r.site, []).append(r)
    for theorem in dict.fromkeys(c.theorem for c in profile.checks):
        checks = [c for c in profile.checks if c.theorem == theorem]
        speaking = [c for c in checks if c.verdict is not Verdict.INAPPLICABLE]
        curve = _BOUNDED.get(theorem) or _bounded(speaking, readings)
        if speaking and curve is not None:
            yield {
                "theorem": theorem,
                "sense": speaking[0].sense,
                "statement": speaking[0].statement,
                "curve": curve,
                "site": [c.site for c in speaking],
                "limit": [strict(c.limit.value) for c in speaking if c.limit is not None],
                "verdict": [str(c.verdict) for c in speaking],
            }


def _bounded(checks: list[Check], readings: dict[str, list[Reading]]) -> Curve | None:
    """The curve whose readings are, at every site, the side that these checks bound.

    For a theorem not listed above. A check names no quantity: where the measured side is not a
    reading, or is several, there is no curve into which its bound could honestly be drawn.
    """
    common: set[Curve] | None = None
    for check in checks:
        same = {
            (r.view, r.form, r.quantity)
            for r in readings.get(check.site, ())
            if check.measured is not None and r.estimate.value == check.measured.value
        }
        common = same if common is None else common & same
    return next(iter(common)) if common and len(common) == 1 else None

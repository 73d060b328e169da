"""The interactive page of a profile."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sigmascope import quantities as q
from sigmascope.diagnosis.presentation.summaries import COLUMNS, LEFT, chances, depths, facts, runs
from sigmascope.gate import printable
from sigmascope.records import Check, Finding, Profile, Reading, SiteSpectrum, Verdict
from sigmascope.records.encoding import encoded
from sigmascope.references import references
from sigmascope.report.findings import folded, headline, reasons
from sigmascope.report.forms import json_form
from sigmascope.report.pages.html import Places, packed, packed_spectrum, shared, write_page

# ------------------------------------------------------------------------------
# What the page is given to draw.


Curve = tuple[str, str, str]  # view, form, quantity

POINTS = 200  # of a spectrum: as many as a screen shows apart
_SAME = ("view", "form", "quantity")  # words that many readings share

# What the theorems bound. The reading of a rank and the rank in a check may differ, each having a
# tolerance of its own, so that equal numbers alone do not find these.
_BOUNDED: Mapping[str, Curve] = MappingProxyType(
    {
        "rank-participation": ("representations", "samples", q.MATRIX_RANK),
        "soft-rank": ("representations", "samples", q.SOFT_RANK),
        "soft-rank-any-scale": ("representations", "samples", q.SOFT_RANK),
        "gradient-collinearity": ("gradients", "", q.MINIMUM_COS),
    }
)


def payload(profile: Profile, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Findings and layers, readings and checks by column, thinned spectra, what is drawn of them.

    Sites are places in `sites`; numbers are packed, which rounds them to seven digits and widens
    no interval by more than a hundredth of it.
    """
    form, depth, sites = (
        json_form(replace(profile, spectra=()), findings),
        depths(profile),
        Places[str](),
    )
    panels = [{"title": t, "quantities": names} for t, names in q.families().items()]
    found = {
        **{name: form[name] for name in ("about", "coverage", "findings", "layers")},
        "readings": _readings(profile.readings, sites),
        "theorems": list(_theorems(profile.checks, sites)),
        "spectra": _spectra(profile.spectra, sites),
        "skipped": [
            [what, why, [sites[site] for site in some]]
            for (what, why), some in reasons(profile.skipped).items()
        ],
        **{"views": q.EVERY, "families": panels, "bounds": list(_bounds(profile))},
        "usual": list(_usual(profile)),
        "cards": [{"cause": cause, "follow": rest} for cause, rest in folded(findings).items()],
        "headline": headline(findings) if findings else "",
        "chances": encoded(chances(profile)),
        "training": _training(profile),
        "meanings": {r.quantity: q.quantities()[r.quantity].says for r in _shown(findings)},
    }
    return {**found, "sites": list(sites), "depths": [depth.get(site) for site in sites]}


def _readings(readings: Sequence[Reading], sites: Places[str]) -> dict[str, Any]:
    """A column for each field."""
    estimates = [r.estimate for r in readings]
    return {
        "site": [sites[r.site] for r in readings],
        **{name: shared(getattr(r, name) for r in readings) for name in _SAME},
        "how": shared(e.how for e in estimates),
        "risk": shared(e.risk for e in estimates),
        **packed(estimates),
    }


def _theorems(checks: Sequence[Check], sites: Places[str]) -> Iterator[dict[str, Any]]:
    """Each theorem with where it was checked, and what came of it there."""
    for name in dict.fromkeys(c.theorem for c in checks):
        own = [c for c in checks if c.theorem == name]
        yield {
            **{"theorem": name, "source": own[0].source, "statement": own[0].statement},
            "site": [sites[c.site] for c in own],
            "sense": shared(c.sense for c in own),
            "verdict": shared(str(c.verdict) for c in own),
            "assumptions": shared(tuple((a.says, a.met) for a in c.assumptions) for c in own),
            "measured": packed([c.measured for c in own]),
            "limit": packed([c.limit for c in own]),
        }


def _shown(findings: tuple[Finding, ...]) -> Iterator[Reading]:
    """The evidence whose meaning is told: of quantities that have one."""
    return (r for f in findings for r in f.evidence if r.quantity in q.quantities())


def _training(profile: Profile) -> dict[str, Any]:
    """The runs by column, what else was read of training, and what the columns mean."""
    cells = lambda run: [
        encoded(run.numbers[quantity]) if quantity in run.numbers else None for quantity in COLUMNS
    ]
    return {
        "columns": [{"title": t, "says": q.quantities()[name].says} for name, t in COLUMNS.items()],
        "runs": [{"form": run.form, "cells": cells(run)} for run in runs(profile)],
        "facts": [
            {"title": r.quantity, "says": q.quantities()[r.quantity].says, **encoded(r.estimate)}
            for r in facts(profile)
        ],
        "scale": LEFT,
    }


def _spectra(spectra: Sequence[SiteSpectrum], sites: Places[str]) -> list[list[Any]]:
    """Site, view, form, shape, how many values, how many of them are zero, and those kept."""
    return [
        [
            *(sites[s.site], s.view, s.form, s.spectrum.shape, len(s.spectrum.sigma)),
            int((s.spectrum.sigma == 0).sum()),
            packed_spectrum(s.spectrum.sigma, POINTS),
        ]
        for s in spectra
    ]


def _bounds(profile: Profile) -> Iterator[dict[str, Any]]:
    """Each theorem that bounds a measured quantity, and the curve it bounds."""
    readings: dict[str, list[Reading]] = {}
    for r in profile.readings:
        readings.setdefault(r.site, []).append(r)
    for theorem in dict.fromkeys(c.theorem for c in profile.checks):
        checks = [c for c in profile.checks if c.theorem == theorem]
        speaking = [c for c in checks if c.verdict not in (Verdict.VACUOUS, Verdict.INAPPLICABLE)]
        curve = _BOUNDED.get(theorem) or _bounded(speaking, readings)
        if speaking and curve is not None:
            yield {"theorem": theorem, "curve": curve}


def _usual(profile: Profile) -> Iterator[dict[str, Any]]:
    """For each curve that has one, the band of networks that train, at each stage."""
    drawn = {(r.view, r.form, r.quantity) for r in profile.readings}
    for r in references():
        if r.curve in drawn:
            ends = {"low": r.p05, "high": r.p95, "networks": r.networks}
            yield {"curve": r.curve, "stage": r.stage, **ends}


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


# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "theme.js",
    "parts.js",
    "packed.js",
    "facts.js",
    "drawing.js",
    "lines.js",
    "curves.js",
    "layers.js",
    "grid.js",
    "tables.js",
    "training.js",
    "main.js",
)


def page(profile: Profile, findings: tuple[Finding, ...], path: str | os.PathLike[str]) -> Path:
    """Write the report as one HTML file that opens anywhere, without a network.

    Findings come first and lead to the place in the curves; the curves have the theorems' bounds
    drawn in; a layer shows its singular values; every reading is in a table, to seven digits, with
    an interval that is never narrower than the one measured. Whatever the names of layers hold is
    shown and never acts: they reach the page as data, and the page's own policy lets nothing run
    but the one script written here, and nothing be fetched.

    Args:
        profile: What was measured.
        findings: What was found in it.
        path: The file to write; it appears complete or not at all.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    about = profile.about
    title = printable(about.get("name", about.get("model", "profile")))
    return write_page(
        path,
        title=title,
        data=payload(profile, findings),
        template="page.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css"),
    )

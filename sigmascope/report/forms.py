"""The published JSON form of a profile and its findings."""

import math
from typing import Any

from sigmascope.records import Check, Estimate, Finding, Profile, Reading, SiteSpectrum
from sigmascope.report.coverage import coverage, no_findings
from sigmascope.report.places import depths
from sigmascope.report.schema import VERSION


def json_form(profile: Profile, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Everything in a profile and its findings as strict JSON, valid against `SCHEMA`.

    Numbers are written in full. JSON has no infinities: they are the strings `"Infinity"` and
    `"-Infinity"`, which `float` in Python and `Number` in JavaScript read back; an end of an
    interval is infinite where nothing is known on that side.

    Example:
        >>> json_form(Profile(readings=()), ())["schema"]
        'sigmascope/profile/1'
    """
    depth, covered = depths(profile), coverage(profile)
    return {
        "schema": VERSION,
        "about": dict(profile.about),
        "coverage": {
            "says": covered.says,
            "layers": covered.layers,
            "layers_measured": covered.layers_measured,
            "layers_in_part": covered.layers_in_part,
            "weights": covered.weights,
            "weights_measured": covered.weights_measured,
            "skipped": covered.skipped,
            "uncovered": list(covered.uncovered),
            "unasked": list(covered.unasked),
            "unseen": list(covered.unseen),
            "no_findings": no_findings(covered),
        },
        "findings": [_finding(f, depth) for f in findings],
        "layers": [
            {"site": s.site, "kind": s.kind, "depth": s.depth, "parameters": list(s.parameters)}
            for s in profile.layers
        ],
        "readings": [_reading(r, depth) for r in profile.readings],
        "spectra": [_spectrum(s) for s in profile.spectra],
        "checks": [check_form(c) for c in profile.checks],
        "skipped": [{"site": s.site, "what": s.what, "why": s.why} for s in profile.skipped],
    }


def strict(number: float) -> float | str:
    """`number`, or the word for it where JSON has no number."""
    if math.isfinite(number):
        return float(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def check_form(c: Check) -> dict[str, Any]:
    """One check, as `SCHEMA` has it."""
    return {
        "theorem": c.theorem,
        "source": c.source,
        "statement": c.statement,
        "site": c.site,
        "sense": c.sense,
        "verdict": str(c.verdict),
        "measured": None if c.measured is None else estimate_form(c.measured),
        "limit": None if c.limit is None else estimate_form(c.limit),
        "assumptions": [{"says": a.says, "met": a.met} for a in c.assumptions],
    }


def estimate_form(e: Estimate) -> dict[str, Any]:
    """One number with its interval."""
    ends = {"value": strict(e.value), "low": strict(e.low), "high": strict(e.high)}
    return {**ends, "how": e.how, "risk": float(e.risk)}


def _reading(r: Reading, depth: dict[str, int]) -> dict[str, Any]:
    place = {"site": r.site, "depth": depth.get(r.site), "view": r.view, "form": r.form}
    return {**place, "quantity": r.quantity, **estimate_form(r.estimate)}


def _finding(f: Finding, depth: dict[str, int]) -> dict[str, Any]:
    return {
        "name": f.name,
        "site": f.site,
        "depth": depth.get(f.site),
        "severity": f.severity,
        "says": f.says,
        "source": f.source,
        "remedies": list(f.remedies),
        "follows": f.follows,
        "evidence": [_reading(r, depth) for r in f.evidence],
    }


def _spectrum(s: SiteSpectrum) -> dict[str, Any]:
    rows, cols = s.spectrum.shape
    return {
        "site": s.site,
        "view": s.view,
        "form": s.form,
        "rows": rows,
        "cols": cols,
        "how": s.spectrum.how,
        "risk": float(s.spectrum.risk),
        "sigma": [strict(v) for v in s.spectrum.sigma.tolist()],
        "low": [strict(v) for v in s.spectrum.low.tolist()],
        "high": [strict(v) for v in s.spectrum.high.tolist()],
    }

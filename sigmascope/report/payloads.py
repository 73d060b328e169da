"""What the page is given to draw."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sigmascope.records import Check, Finding, Profile, Reading, SiteSpectrum, Verdict
from sigmascope.report.columns import table
from sigmascope.report.forms import check_form, json_form, strict

_POINTS = 200  # of a spectrum on the page; all of them are in the JSON form
_HEAD = 64  # of those, how many leading values are kept one by one

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
    """The JSON form, with readings by column, spectra thinned, and bounds placed on curves."""
    form = json_form(Profile((), layers=profile.layers, skipped=profile.skipped), ())
    whole = json_form(Profile(profile.readings, layers=profile.layers), findings)
    columns = table(profile)
    for name in ("value", "low", "high"):
        columns[name] = [strict(v) for v in columns[name]]
    return {
        "about": dict(profile.about),
        "coverage": json_form(profile, ())["coverage"],
        "findings": whole["findings"],
        "layers": form["layers"],
        "skipped": form["skipped"],
        "readings": columns,
        "spectra": [_thinned(s) for s in profile.spectra],
        "checks": [check_form(c) for c in profile.checks],
        "bounds": list(_bounds(profile)),
    }


def _thinned(s: SiteSpectrum) -> dict[str, Any]:
    return {
        "site": s.site,
        "view": s.view,
        "form": s.form,
        "shape": list(s.spectrum.shape),
        "how": s.spectrum.how,
        **thinned(s.spectrum.sigma.tolist()),
    }


def thinned(sigma: list[float]) -> dict[str, Any]:
    """The leading values and an even choice of the rest, to six digits, with their indices."""
    chosen = list(range(len(sigma)))
    if len(sigma) > _POINTS:
        step = (len(sigma) - 1 - _HEAD) / (_POINTS - _HEAD - 1)
        chosen = chosen[:_HEAD] + [round(_HEAD + i * step) for i in range(_POINTS - _HEAD)]
    return {
        "count": len(sigma),
        "zeros": sigma.count(0.0),
        "at": [i + 1 for i in chosen],
        "sigma": [strict(float(f"{sigma[i]:.6g}")) for i in chosen],
    }


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

"""Results as strict JSON. What is not said here follows from the fields of the records.

Numbers are written in full. JSON has no infinities: they are the strings `"Infinity"` and
`"-Infinity"`, which `float` in Python and `Number` in JavaScript read back; an end of an interval
is infinite where nothing is known on that side.
"""

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import singledispatch
from typing import Any

from sigmascope.diagnosis import Diagnosis, Treatment, judge
from sigmascope.diagnosis.compression import Compression
from sigmascope.diagnosis.cures import Cures
from sigmascope.diagnosis.trainability import probability
from sigmascope.records import Finding, Profile
from sigmascope.records.encoding import encoded, strict
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.results import (
    CURVES,
    LAYER_NUMBERS,
    MATRICES,
    Checks,
    Ranking,
    Scenery,
    Trials,
    coverage,
    coverage_form,
    depths,
    distribution,
    layer_values,
    predicted,
    thinned,
)
from sigmascope.report.schema import VERSION
from sigmascope.theory import Comparison, le2022, riedi2022
from sigmascope.theory.bottleneck import Bottleneck, DepthSweep, Prediction
from sigmascope.theory.landscape import Bends, Landscape, LayerCurvature, Regions, Surface
from sigmascope.theory.le2022.conservation import broken_balances
from sigmascope.watching import Parting


@singledispatch
def json_form(result: Any, *beside: Any, **more: Any) -> dict[str, Any]:
    """A result as strict JSON, as `--json` of its command writes it.

    Args:
        result: A profile, which is then valid against `SCHEMA`, or another result of this library.
        beside: What it is shown with, as the findings of a profile or a comparison.
        more: The same by name.

    Raises:
        TypeError: If it has no such form.

    Example:
        >>> json_form(Profile(readings=()), ())["schema"]
        'sigmascope/profile/1'
    """
    raise TypeError(f"A result of this library was expected, got {type(result).__name__}.")


@json_form.register
def _profile(profile: Profile, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    findings = judge(profile) if findings is None else findings
    depth = depths(profile)
    placed = lambda form: {**form, "depth": depth.get(form["site"])}
    form = encoded(profile)
    del form["views"]  # those that were not asked for are under `coverage`
    return {
        "schema": VERSION,  # first, for by it a file is known as one that may be written again
        **form,
        "coverage": coverage_form(coverage(profile)),
        "findings": [
            {**placed(finding), "evidence": [placed(r) for r in finding["evidence"]]}
            for finding in encoded(findings)
        ],
        "readings": [placed(reading) for reading in form["readings"]],
    }


@json_form.register
def _diagnosis(found: Diagnosis, cures: Cures | None = None) -> dict[str, Any]:
    form = json_form(found.profile, found.findings)
    return form if cures is None else {**form, "cures": json_form(cures)}


@json_form.register
def _cures(found: Cures) -> dict[str, Any]:
    names = ("name", "cause", "patch", "diff", "after", "steps")
    known = lambda score: None if math.isnan(score) else score
    return {
        "schema": "sigmascope/cures/1",
        "tried": [
            {**some(c, *names), "before": known(c.before), "others": known(c.others)}
            for c in found.tried
        ],
        **some(found, "declined"),
    }


@json_form.register
def _explanations(found: Explanations) -> dict[str, Any]:
    senses = [{"name": e.name, "kind": e.kind, **dict(e.rows)} for e in found.senses]
    return {"schema": "sigmascope/explanation/1", "senses": senses}


@json_form.register
def _explanation(found: Explanation) -> dict[str, Any]:
    return json_form(Explanations((found,)))


@json_form.register
def _checks(found: Checks) -> dict[str, Any]:
    return {"schema": "sigmascope/checks/1", **encoded(found)}


@json_form.register
def _balances(found: le2022.conservation.Conserved) -> dict[str, Any]:
    names = ("kind", "tensors", "count", "rate", "tolerance")
    each = lambda i: (
        some(i, *names)
        | {"formula": le2022.conservation.formula(i), "reason": le2022.conservation.reason(i)}
    )
    form = {"invariants": [*map(each, found.invariants)], "broken": [*map(each, found.broken)]}
    return {"schema": "sigmascope/balances/1", **form, "fixed": encoded(found.fixed)}


@json_form.register
def _bottleneck(found: Bottleneck) -> dict[str, Any]:
    return {"schema": "sigmascope/bottleneck/1", **encoded(found)}


@json_form.register
def _comparison(found: Comparison, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    findings = broken_balances(found.drifts) if findings is None else findings
    return {
        "schema": "sigmascope/comparison/1",
        "changes": [{**encoded(c), "moved": c.moved} for c in found.changes],
        "drifts": [
            {**encoded(d.check()), "drift": strict(d.drift), "kind": d.invariant.kind}
            for d in found.drifts
        ],
        **some(found, "signs", "missing"),
        "findings": [some(f, "name", "site", "says") for f in findings],
    }


@json_form.register
def _parting(found: Parting) -> dict[str, Any]:
    names = (f.name for f in fields(found) if f.name != "differing")
    differing = [key._asdict() for key in found.differing]
    return {"schema": "sigmascope/parting/1", **some(found, *names), "differing": differing}


@json_form.register
def _compression(found: Compression) -> dict[str, Any]:
    names = (f.name for f in fields(found) if f.name != "model")
    patch = found.patch().splitlines()
    return {"schema": "sigmascope/compression/1", **some(found, *names), "patch": patch}


@json_form.register
def _prediction(found: Prediction) -> dict[str, Any]:
    return {
        "schema": "sigmascope/prediction/1",
        **some(found, "width", "depth", "checks"),
        "gamma": None if math.isinf(found.gamma) else found.gamma,
        **some(found.chain, "weights", "samples", "chains", "layers", "burn_in"),
        **{name.replace(" ", "_"): encoded(e) for name, e, _ in predicted(found)},
    }


@json_form.register
def _ranking(found: Ranking) -> dict[str, Any]:
    return {"schema": "sigmascope/ranking/1", **encoded(found)}


@json_form.register
def _scale(found: riedi2022.random_weights.WeightScale) -> dict[str, Any]:
    return {"schema": "sigmascope/scale/1", **encoded(found)}


@json_form.register
def _sweep(found: DepthSweep) -> dict[str, Any]:
    networks = [{**encoded(n), "kind": n.kind} for n in found.networks]
    return {"schema": "sigmascope/sweep/1", **encoded(found), "networks": networks}


@json_form.register
def _trials(found: Trials) -> dict[str, Any]:
    return {
        "schema": "sigmascope/treatments/1",
        "treatments": [*map(json_form, found.treatments)],
        **some(found, "declined", "normalisation"),
    }


@json_form.register
def _treatment(found: Treatment) -> dict[str, Any]:
    return {
        "remedy": found.remedy.name,
        **some(found.remedy, "says", "source"),
        **some(found, "cured", "new"),
        "before": _side(found.before, found.found_before),
        "after": _side(found.after, found.found_after),
    }


def some(result: Any, *names: str) -> dict[str, Any]:
    """These fields of a result."""
    return {name: encoded(getattr(result, name)) for name in names}


def _side(profile: Profile, findings: Sequence[Finding]) -> dict[str, Any]:
    trains = probability(profile)
    curves = {quantity: layer_values(profile, quantity, form) for quantity, form, _ in CURVES}
    return {
        "probability_of_fitting": None if trains is None else encoded(trains.estimate),
        "findings": [some(f, "name", "site", "severity") for f in findings],
        "curves": {quantity.replace(" ", "_"): v for quantity, v in curves.items() if v},
    }


# ------------------------------------------------------------------------------
# Landscapes as strict JSON: layers, curvature, surfaces and regions.


@json_form.register
def _landscape(
    found: Landscape,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
) -> dict[str, Any]:
    seen = scenery or Scenery()
    return {
        "schema": "sigmascope/landscape/1",
        "loss": loss or found.loss,
        "variants": [_variant(each) for each in (found, *variants)],
        "curvature": None if seen.curvature is None else json_form(seen.curvature),
        "surface": None if seen.surface is None else json_form(seen.surface),
        "regions": None if seen.regions is None else json_form(seen.regions),
    }


@json_form.register
def _curvature(bends: Bends) -> dict[str, Any]:
    parts = [
        {**encoded(p), "density": None if p.density is None else distribution(p.density)}
        for p in bends.parts
    ]
    return {**encoded(bends), "title": MATRICES[bends.kind], "parts": parts}


@json_form.register
def _surface(surface: Surface) -> dict[str, Any]:
    return encoded(surface)


@json_form.register
def _regions(regions: Regions) -> dict[str, Any]:
    """The polygons; coordinates are in half sides of the square."""
    found = regions.partition
    many = found.outputs.shape[1] > 1
    classes = found.outputs.argmax(1) if many else (found.outputs[:, 0] > 0).long()
    rounded = lambda each: [[round(v, 6) for v in x.flatten().tolist()] for x in each]
    return {
        **some(regions, "samples", "at", "half"),
        **some(found, "counts", "by"),
        "activations": list(found.names),
        "polygons": rounded(found.polygons),
        "classes": classes.tolist(),
        "cuts": rounded(found.cuts),
    }


def _variant(found: Landscape) -> dict[str, Any]:
    skipped = [some(s, "site", "why") for s in found.skipped]
    return {
        **some(found, "says", "rho"),
        "layers": [*map(_layer, found.layers)],
        "skipped": skipped,
    }


def _layer(layer: LayerCurvature) -> dict[str, Any]:
    names = ("site", "floor", *(title.replace(" ", "_") for title in LAYER_NUMBERS), "rate")
    return {**some(layer, *names), "axes": thinned(layer.root.sigma.tolist())}

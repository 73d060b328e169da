"""Landscapes as strict JSON: layers, curvature, surfaces and regions."""

from collections.abc import Sequence
from typing import Any

from sigmascope.records.encoding import encoded
from sigmascope.report.forms import json_form, some
from sigmascope.report.results import LAYER_NUMBERS, MATRICES, Scenery, distribution, thinned
from sigmascope.survey.landscape import Bends, Landscape, LayerCurvature, Regions, Surface


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

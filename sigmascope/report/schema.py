"""What the JSON of a profile looks like, for programs that read it: derived from the records."""

from typing import Any, Final

from sigmascope.records import (
    Check,
    Estimate,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
)
from sigmascope.records.encoding import object_of, schema_of
from sigmascope.records.scans import Matrix, Scan, ScanPlan
from sigmascope.report.results import Coverage

VERSION = "sigmascope/profile/1"  # a new number whenever a reader of the old form could go wrong
SCAN_VERSION = "sigmascope/scan/1"

_NAMES = {
    Estimate: "estimate",
    Reading: "reading",
    Layer: "layer",
    SiteSpectrum: "spectrum",
    Check: "check",
    Finding: "finding",
    Skipped: "skipped",
}
_TEXT = {"type": "string"}
_DEPTH = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Order of the layer, from 0; one past the last for the network's output; null "
    "where the site belongs to no layer.",
}
_NUMBER = {
    "description": "A finite number, or the word for one that JSON cannot write. NaN never occurs "
    "in an estimate.",
    "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}],
}


def _with(known: dict[str, Any], /, without: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """The schema of an object with more properties, and without some."""
    kept = {name: said for name, said in known["properties"].items() if name not in without}
    return object_of({**kept, **more})


def _definitions() -> dict[str, Any]:
    found = {name: schema_of(kind, _NAMES) for kind, name in _NAMES.items()}
    for placed in ("reading", "finding"):
        found[placed] = _with(found[placed], depth=_DEPTH)
    clauses = "What no rule could look at; without findings nothing is known of it."
    coverage = _with(
        schema_of(Coverage, _NAMES),
        without=("weights_wanted", "silent"),  # what was silent is told under `unseen`
        says={**_TEXT, "description": "One sentence."},
        unseen={"type": "array", "items": _TEXT, "description": clauses},
        no_findings={**_TEXT, "description": "What may be said where `findings` is empty."},
    )
    return {"number": _NUMBER, "coverage": coverage, **found}


SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:profile:1",
    "title": "A sigmascope profile and what was found in it",
    **_with(
        schema_of(Profile, _NAMES),
        without=("views",),  # those that were not asked for are under `coverage`
        schema={"const": VERSION},
        coverage={"$ref": "#/$defs/coverage"},
        findings={"type": "array", "items": {"$ref": "#/$defs/finding"}},
    ),
    "$defs": _definitions(),
}


def _scan_definitions() -> dict[str, Any]:
    known = ("estimate", "reading", "spectrum", "finding", "skipped")
    names = {kind: name for kind, name in _NAMES.items() if name in known}
    names |= {Matrix: "matrix", ScanPlan: "plan"}
    found = {name: schema_of(kind, names) for kind, name in names.items()}
    depth = found["matrix"]["properties"]["depth"]["description"]
    placed = {"type": "integer", "minimum": -1, "description": depth}
    return {"number": _NUMBER, **found, "matrix": _with(found["matrix"], depth=placed)}


SCAN_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:scan:1",
    "title": "What was measured of the matrices of a checkpoint, and what was found in it",
    **_with(
        schema_of(Scan, {**_NAMES, ScanPlan: "plan"}),
        schema={"const": SCAN_VERSION},
        findings={"type": "array", "items": {"$ref": "#/$defs/finding"}},
        without=("spectra",),  # they are in the run file
    ),
    "$defs": _scan_definitions(),
}

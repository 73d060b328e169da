"""Pieces of which schemas of JSON are made: derived from the records."""

from typing import Any

from sigmascope.core.encoding import object_of
from sigmascope.core.records import (
    Check,
    Estimate,
    Fact,
    Finding,
    Layer,
    Reading,
    SiteSpectrum,
    Skipped,
)

NAMES = {
    Estimate: "estimate",
    Reading: "reading",
    Fact: "fact",
    Layer: "layer",
    SiteSpectrum: "spectrum",
    Check: "check",
    Finding: "finding",
    Skipped: "skipped",
}
TEXT = {"type": "string"}
DEPTH = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Order of the layer, from 0; one past the last for the network's output; null "
    "where the site belongs to no layer.",
}
NUMBER = {
    "description": "A finite number, or the word for one that JSON cannot write. NaN never occurs "
    "in an estimate.",
    "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}],
}


def with_more(
    known: dict[str, Any], /, without: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """The schema of an object with more properties, and without some."""
    kept = {name: said for name, said in known["properties"].items() if name not in without}
    return object_of({**kept, **more})

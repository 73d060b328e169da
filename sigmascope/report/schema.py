"""What the JSON of a profile looks like, for programs that read it."""

from typing import Any, Final

from sigmascope.quantities import EVERY

VERSION = "sigmascope/profile/1"  # a new number whenever a reader of the old form could go wrong

_TEXT = {"type": "string"}
_WORDS = {"type": "array", "items": _TEXT}
_COUNT = {"type": "integer", "minimum": 0}
_DEPTH = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "Order of the layer, from 0; one past the last for the network's output; null "
    "where the site belongs to no layer.",
}
_VIEW = {"enum": list(EVERY)}
_NUMBERS = {"type": "array", "items": {"$ref": "#/$defs/number"}}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}


_ESTIMATE = {
    "value": {"$ref": "#/$defs/number"},
    "low": {"$ref": "#/$defs/number"},
    "high": {"$ref": "#/$defs/number"},
    "how": {**_TEXT, "description": "Route that produced the number, and its knobs."},
    "risk": {
        "type": "number",
        "minimum": 0,
        "description": "Chance, over the route's own randomness, that the interval misses.",
    },
}
_PLACE = {"site": _TEXT, "view": _VIEW, "form": _TEXT}

# null where the theorem does not apply, and was asked for no number
_SIDE = {"anyOf": [{"$ref": "#/$defs/estimate"}, {"type": "null"}]}

_DEFINITIONS = {
    "number": {
        "description": "A finite number, or the word for one that JSON cannot write. NaN never "
        "occurs in an estimate.",
        "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}],
    },
    "estimate": _object(
        _ESTIMATE,
        description="The truth is in [low, high] except with chance `risk`.",
    ),
    "reading": _object({**_PLACE, "depth": _DEPTH, "quantity": _TEXT, **_ESTIMATE}),
    "layer": _object(
        {
            "site": _TEXT,
            "kind": _TEXT,
            "depth": _COUNT,
            "parameters": {"type": "array", "items": _TEXT},
        }
    ),
    "spectrum": _object(
        {
            **_PLACE,
            "rows": _COUNT,
            "cols": _COUNT,
            "how": _TEXT,
            "risk": _ESTIMATE["risk"],
            "sigma": {**_NUMBERS, "description": "Singular values, descending, not squared."},
            "low": _NUMBERS,
            "high": _NUMBERS,
        }
    ),
    "check": _object(
        {
            "theorem": _TEXT,
            "source": _TEXT,
            "statement": _TEXT,
            "site": _TEXT,
            "sense": {"enum": ["at most", "at least"]},
            "verdict": {"enum": ["holds", "consistent", "violated", "inapplicable"]},
            "measured": _SIDE,
            "limit": _SIDE,
            "assumptions": {
                "type": "array",
                "items": _object({"says": _TEXT, "met": {"type": ["boolean", "null"]}}),
            },
        }
    ),
    "finding": _object(
        {
            "name": _TEXT,
            "site": _TEXT,
            "depth": _DEPTH,
            "severity": {"enum": ["error", "warning", "note"]},
            "says": _TEXT,
            "source": _TEXT,
            "remedies": {"type": "array", "items": _TEXT},
            "evidence": _list("reading"),
            "follows": {
                "type": "string",
                "description": "Name of the finding that this one follows from; empty for a cause.",
            },
        }
    ),
    "skipped": _object({"site": _TEXT, "what": _TEXT, "why": _TEXT}),
    "coverage": _object(
        {
            "says": _TEXT,
            "layers": _COUNT,
            "layers_measured": _COUNT,
            "layers_in_part": {
                **_COUNT,
                "description": "Measured layers of which something is under `skipped`.",
            },
            "weights": _COUNT,
            "weights_measured": _COUNT,
            "skipped": _COUNT,
            "uncovered": {
                **_WORDS,
                "description": "Layers and weights that no call of a layer covers.",
            },
            "unasked": {**_WORDS, "description": "Views that were not asked for."},
            "unseen": {
                **_WORDS,
                "description": "What no rule could look at; where there are no findings, nothing "
                "is known of it.",
            },
            "no_findings": {
                **_TEXT,
                "description": "What may be said where `findings` is empty.",
            },
        }
    ),
}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:profile:1",
    "title": "A sigmascope profile and what was found in it",
    **_object(
        {
            "schema": {"const": VERSION},
            "about": {"type": "object", "additionalProperties": _TEXT},
            "coverage": {"$ref": "#/$defs/coverage"},
            "findings": _list("finding"),
            "layers": _list("layer"),
            "readings": _list("reading"),
            "spectra": _list("spectrum"),
            "checks": _list("check"),
            "skipped": _list("skipped"),
        }
    ),
    "$defs": _DEFINITIONS,
}

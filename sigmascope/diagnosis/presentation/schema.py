"""What the JSON of a profile looks like, for programs that read it: derived from the records."""

from typing import Any, Final

from sigmascope.diagnosis.presentation.summaries import Coverage
from sigmascope.records import Profile
from sigmascope.records.encoding import schema_of
from sigmascope.report.schema import DEPTH, NAMES, NUMBER, TEXT, with_more

VERSION = "sigmascope/profile/2"  # a new number whenever a reader of the old form could go wrong


def _definitions() -> dict[str, Any]:
    found = {name: schema_of(kind, NAMES) for kind, name in NAMES.items()}
    for placed in ("reading", "finding"):
        found[placed] = with_more(found[placed], depth=DEPTH)
    clauses = "What no rule could look at; without findings nothing is known of it."
    coverage = with_more(
        schema_of(Coverage, NAMES),
        without=("weights_wanted", "silent"),  # what was silent is told under `unseen`
        says={**TEXT, "description": "One sentence."},
        unseen={"type": "array", "items": TEXT, "description": clauses},
        no_findings={**TEXT, "description": "What may be said where `findings` is empty."},
    )
    return {"number": NUMBER, "coverage": coverage, **found}


SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:profile:2",
    "title": "A sigmascope profile and what was found in it",
    **with_more(
        schema_of(Profile, NAMES),
        without=("views",),  # those that were not asked for are under `coverage`
        schema={"const": VERSION},
        coverage={"$ref": "#/$defs/coverage"},
        findings={"type": "array", "items": {"$ref": "#/$defs/finding"}},
    ),
    "$defs": _definitions(),
}

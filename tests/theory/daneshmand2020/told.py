"""Facts that are told, a part in a million to either side of a bound."""

from dataclasses import replace

from sigmascope.core.records import Estimate, Verdict

PART = 1e-6


def told(value):
    return Estimate.exactly(float(value))


def flips(theorem, field, limit):
    """The measured side a part in a million past the limit, and before it."""
    past = 1 + PART if theorem.sense == "at most" else 1 - PART
    for factor, verdict in ((past, Verdict.VIOLATED), (1 / past, Verdict.HOLDS)):
        moved = replace(theorem, **{field: told(limit * factor)})
        assert moved.check().verdict is verdict

"""Rules over two versions of a checkpoint."""

from collections.abc import Iterator
from statistics import median

from sigmascope import quantities as q
from sigmascope.diagnosis.checkpoints.facts import Facts, told, worst
from sigmascope.records import Finding, Kind, rule

FAR = 10.0  # times the median change of all matrices


UNMOVED_WEIGHTS = Kind(
    "unmoved-weights",
    "of two versions, not one bit differs",
    "Arithmetic",
)


@rule(q.RELATIVE_CHANGE, UNMOVED_WEIGHTS)
def unmoved(facts: Facts) -> Iterator[Finding]:
    """Matrices of which not one bit differs."""
    moved = facts.of(q.RELATIVE_CHANGE)
    still = [pair for pair in moved if pair[1].estimate.value == 0]
    yield from told(
        UNMOVED_WEIGHTS,
        "note",
        still,
        f"not one bit differs between the two versions ({len(still)} of {len(moved)} matrices).",
        "Frozen layers do not move; where training was meant, see that the optimiser holds them.",
    )


FAR_MOVED_WEIGHTS = Kind(
    "far-moved-weights",
    "of two versions, it moved ten times as far as the median",
    "Measured, docs/scan.md",
)


@rule(q.RELATIVE_CHANGE, FAR_MOVED_WEIGHTS)
def far_moved(facts: Facts) -> Iterator[Finding]:
    """Matrices that moved much farther than the others."""
    moved = facts.of(q.RELATIVE_CHANGE)
    values = [r.estimate.value for _, r in moved if r.estimate.value > 0]
    usual = median(values) if len(values) >= 3 else 0.0
    yield from told(
        FAR_MOVED_WEIGHTS,
        "warning",
        worst(pair for pair in moved if usual and pair[1].estimate.value >= FAR * usual),
        f"moved {FAR:g} times as far as the median matrix, or farther.",
        "Look whether that is meant: a new head moves far, an attention matrix seldom.",
    )


INTRUDER_DIRECTIONS = Kind(
    "intruder-directions",
    "of two versions, leading directions of the second are beyond doubt none of the first",
    "Shuttleworth et al. 2024, Sec. 3",
)


@rule(q.INTRUDERS, INTRUDER_DIRECTIONS)
def intruders(facts: Facts) -> Iterator[Finding]:
    """Leading directions that fine-tuning wrote over those of before."""
    yield from told(
        INTRUDER_DIRECTIONS,
        "note",
        worst((m, r) for m, r in facts.of(q.INTRUDERS) if r.estimate.low > 0),
        "leading directions of the second version are none of the first: fine-tuning wrote over "
        "the spectrum there, and forgets more.",
        "Take a lower rate or a higher rank for the adapter, or fine-tune fully.",
    )

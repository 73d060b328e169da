"""Rules over two versions of a checkpoint."""

from collections.abc import Iterator
from statistics import median

from sigmascope.diagnosis.checkpoints.facts import Facts, told, worst
from sigmascope.records import Finding

FAR = 10.0  # times the median change of all matrices
TURNED = 1e-3  # share of the change that is left where a matrix was only scaled


def changed(facts: Facts) -> Iterator[Finding]:
    """What moved between two versions, and how.

    Args:
        facts: Of a scan of one checkpoint against another; nothing is said of others.
    """
    moved = {m.site: (m, r) for m, r in facts.of("relative change")}
    if not moved:
        return
    still = [pair for pair in moved.values() if pair[1].estimate.value == 0]
    yield from told(
        "unmoved-weights",
        "note",
        still,
        f"not one bit differs between the two versions ({len(still)} of {len(moved)} matrices).",
        "Arithmetic",
        "Frozen layers do not move; where training was meant, see that the optimiser holds them.",
    )
    yield from _far(facts, moved)
    yield from _intruders(facts)


def _far(facts: Facts, moved: dict) -> Iterator[Finding]:
    values = [r.estimate.value for _, r in moved.values() if r.estimate.value > 0]
    usual = median(values) if len(values) >= 3 else 0.0
    far = [pair for pair in moved.values() if usual and pair[1].estimate.value >= FAR * usual]
    yield from told(
        "far-moved-weights",
        "warning",
        worst(far),
        f"moved {FAR:g} times as far as the median matrix, or farther.",
        "Measured, docs/scan.md",
        "Look whether that is meant: a new head moves far, an attention matrix seldom.",
    )


def _intruders(facts: Facts) -> Iterator[Finding]:
    yield from told(
        "intruder-directions",
        "note",
        worst((m, r) for m, r in facts.of("intruders") if r.estimate.low > 0),
        "leading directions of the second version are none of the first: fine-tuning wrote over "
        "the spectrum there, and forgets more.",
        "Shuttleworth et al. 2024, Sec. 3",
        "Take a lower rate or a higher rank for the adapter, or fine-tune fully.",
    )

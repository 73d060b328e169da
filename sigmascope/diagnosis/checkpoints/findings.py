"""Every rule over a checkpoint, listed by hand, and what they say together."""

from sigmascope.diagnosis.checkpoints import changes, damage, structure
from sigmascope.diagnosis.checkpoints.facts import Facts
from sigmascope.records import Finding, Rule, kinds_of
from sigmascope.records.scans import Scan

RULES: tuple[Rule[Facts], ...] = (
    damage.non_finite,
    damage.broken_scales,
    damage.zero_matrix,
    damage.long_rows,
    damage.outlying_size,
    damage.dead_units,
    structure.collapsed,
    damage.saturated,
    structure.copies,
    structure.noise_only,
    structure.deficient,
    structure.compressible,
    damage.underflown,
    changes.unmoved,
    changes.far_moved,
    changes.intruders,
)
KINDS = kinds_of(RULES)


def scan_findings(scan: Scan) -> tuple[Finding, ...]:
    """What the numbers of a scan mean, in words, errors first.

    Args:
        scan: Of one checkpoint, or of two held against each other.

    Returns:
        One finding for each rule that speaks, over all matrices of which it does.
    """
    facts = Facts(scan)
    order = ("error", "warning", "note")
    found = [f for rule in RULES for f in rule(facts)]
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))

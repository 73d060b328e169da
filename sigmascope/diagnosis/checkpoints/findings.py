"""Every rule over a checkpoint, and what they say together."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from sigmascope.diagnosis.checkpoints import damage, structure
from sigmascope.diagnosis.checkpoints.changes import changed
from sigmascope.diagnosis.checkpoints.facts import Facts
from sigmascope.records import Finding
from sigmascope.records.scans import Scan

Rule = Callable[[Facts], Iterator[Finding]]


def scan_findings(scan: Scan) -> tuple[Finding, ...]:
    """What the numbers of a scan mean, in words, errors first.

    Args:
        scan: Of one checkpoint, or of two held against each other.

    Returns:
        One finding for each rule that speaks, over all matrices of which it does.
    """
    facts = Facts(scan)
    found = [f for rule in RULES.values() for f in rule(facts)] + [*changed(facts)]
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
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
        )
    }
)

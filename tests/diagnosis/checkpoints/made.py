"""Scans made up of a few numbers, for rules to look at."""

from sigmascope.diagnosis.checkpoints import scan_findings
from sigmascope.records import Estimate, Reading
from sigmascope.records.scans import Matrix, Scan, ScanPlan


def matrix(site, kind="linear", *, shape=(64, 32), dtype="bfloat16", form="matrix"):
    return Matrix(site, kind, 0, *shape, dtype, (site,), 128, "full", 1.0, form)


def scan_of(matrices, *readings):
    """A scan of matrices with `(site, quantity, number or estimate)` read of them."""
    plan = ScanPlan("made-up", tuple(matrices), (), len(matrices), 1, 1.0, 1)
    rows = []
    for site, name, number in readings:
        known = number if isinstance(number, Estimate) else Estimate.exactly(float(number))
        rows.append(Reading(site, name, known, "scan"))
    return Scan(plan, tuple(rows))


THREE = [matrix(name) for name in "abc"]


def names(*readings, matrices=THREE):
    """What is found in a scan with these readings, by name with its severity."""
    found = scan_findings(scan_of(matrices, *readings))
    return {f.name: f.severity for f in found}


def each(quantity, *values):
    """The same quantity of `a`, `b`, `c`."""
    return [(name, quantity, v) for name, v in zip("abc", values, strict=True)]

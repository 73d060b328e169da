"""A scan as columns, a row for each matrix."""

from typing import Any

from sigmascope.records.scans import Matrix, Scan, ScanPlan
from sigmascope.report.scans.groups import seen

_HEAD = ("site", "kind", "depth", "rows", "cols", "dtype")
_PLANNED = (*_HEAD, "bytes", "effort", "work", "form")


def columns(scan: Scan) -> dict[str, list[Any]]:
    """What each matrix is, then a column for each quantity that was read; None where it was not."""
    found = _about(scan.matrices, _HEAD)
    for name, read in seen(scan).items():
        found[name] = [
            read[m.site].estimate.value if m.site in read else None for m in scan.matrices
        ]
    return found


def plan_columns(plan: ScanPlan) -> dict[str, list[Any]]:
    """What will be measured."""
    return _about(plan.matrices, _PLANNED)


def _about(matrices: tuple[Matrix, ...], names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [getattr(matrix, name) for matrix in matrices] for name in names}

"""Scans as strict JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sigmascope.records import Finding, Reading, Skipped
from sigmascope.records.encoding import encoded
from sigmascope.records.scans import Matrix, Scan, ScanPlan
from sigmascope.report.forms import json_form
from sigmascope.report.schema import SCAN_VERSION


@json_form.register
def _scan(scan: Scan, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    # a run file keeps singular values; as text those of a large checkpoint would fill the memory
    form = encoded(replace(scan, spectra=()))
    del form["spectra"]
    return {"schema": SCAN_VERSION, **form, "findings": encoded(tuple(findings))}


@json_form.register
def _plan(plan: ScanPlan) -> dict[str, Any]:
    return {"schema": "sigmascope/scan-plan/1", **encoded(plan)}


def matrix_form(
    matrix: Matrix, readings: Iterable[Reading], skipped: Iterable[Skipped] = ()
) -> dict[str, Any]:
    """One matrix with what was read of it, for a file that grows by a line for each.

    Args:
        matrix: What it is.
        readings: What was read of it.
        skipped: What was not measured of it, each with the reason.

    Example:
        >>> zero = Matrix("fc", "linear", 0, 2, 3, "float32", ("fc",), 24, "full", 12.0)
        >>> matrix_form(zero, ())["schema"]
        'sigmascope/scan-matrix/1'
    """
    return {
        "schema": "sigmascope/scan-matrix/1",
        **encoded(matrix),
        "readings": encoded(tuple(readings)),
        "skipped": encoded(tuple(skipped)),
    }

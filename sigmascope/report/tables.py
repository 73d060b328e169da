"""Results as columns, for a data frame."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sigmascope.diagnosis import Diagnosis, Treatment
from sigmascope.diagnosis.compression import Compression, Truncation
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.records import Check, Finding, Profile, Reading
from sigmascope.records.encoding import wide
from sigmascope.records.scans import Scan, ScanPlan
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.forms import json_form
from sigmascope.report.results import Checks, depths
from sigmascope.report.scans import columns, plan_columns
from sigmascope.survey import Change
from sigmascope.theory import Comparison, compare, le2022
from sigmascope.theory.bottleneck import Bottleneck, DepthSweep, Evidence, Trained
from sigmascope.theory.landscape import Bend, Bends, Landscape, LayerCurvature
from sigmascope.watching import Parted, Parting

# Which of its parts are the rows of a result that is not one row itself.
_ROWS: Mapping[type, tuple[type, str]] = MappingProxyType(
    {
        Profile: (Reading, "readings"),
        Diagnosis: (Finding, "findings"),
        Cures: (Cure, "tried"),
        Finding: (Reading, "evidence"),
        Checks: (Check, "checks"),
        Comparison: (Change, "changes"),
        Explanations: (Explanation, "senses"),
        Bottleneck: (Evidence, "evidence"),
        Landscape: (LayerCurvature, "layers"),
        Bends: (Bend, "parts"),
        Compression: (Truncation, "layers"),
        DepthSweep: (Trained, "networks"),
        Parting: (Parted, "parted"),
    }
)
_FIRST = ("site", "depth", "view", "form", "quantity")  # who and what, then numbers


def table(result: Any) -> dict[str, list[Any]]:
    """The rows of a result as equally long columns: readings of a profile, changes, layers.

    Returns:
        The fields of the records, numbers as `value, low, high, how, risk`. Readings of a profile
        have a `depth` besides, the order of the layer that is, or applies, the site; one past the
        last for the network's output; None where the site belongs to no layer. A scan has a row
        for each matrix, and a column for each quantity.

    Example:
        >>> from sigmascope.records import Estimate
        >>> from sigmascope.records import Reading
        >>> row = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
        >>> table(Profile(readings=(row,)))["value"]
        [3.0]
    """
    if isinstance(result, Treatment):
        return table(compare(result.before, result.after))
    if isinstance(result, le2022.conservation.Conserved):  # each balance with its formula
        balances = json_form(result)["invariants"]
        return {name: [row[name] for row in balances] for name in balances[0]} if balances else {}
    if isinstance(result, Scan | ScanPlan):
        return columns(result) if isinstance(result, Scan) else plan_columns(result)
    kind, name = _ROWS.get(type(result), (type(result), ""))
    rows = getattr(result, name) if name else (result,)
    found = {column.name: [column.of(row) for row in rows] for column in wide(kind)}
    if isinstance(result, Profile):
        depth = depths(result)
        found["depth"] = [depth.get(r.site) for r in rows]
    first = [name for name in _FIRST if name in found]
    return {name: found[name] for name in (*first, *(n for n in found if n not in first))}

"""What the numbers of a checkpoint mean: findings of a scan, worst first."""

from sigmascope.diagnosis.checkpoints.changes import changed
from sigmascope.diagnosis.checkpoints.findings import RULES, scan_findings

__all__ = ["RULES", "changed", "scan_findings"]

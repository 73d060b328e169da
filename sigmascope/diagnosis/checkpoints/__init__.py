"""What the numbers of a checkpoint mean: findings of a scan, worst first."""

from sigmascope.diagnosis.checkpoints.findings import KINDS, RULES, scan_findings

__all__ = ["KINDS", "RULES", "scan_findings"]

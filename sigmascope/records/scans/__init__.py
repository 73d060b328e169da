"""What a scan of a checkpoint yields."""

from sigmascope.records.scans.matrices import Effort, Matrix, Scan, ScanPlan

__all__ = ["Effort", "Matrix", "Scan", "ScanPlan"]

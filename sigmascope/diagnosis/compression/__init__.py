"""Layers of lower rank."""

from sigmascope.diagnosis.compression.trials import Truncation
from sigmascope.diagnosis.compression.truncation import Compression, compression

__all__ = ["Compression", "Truncation", "compression"]

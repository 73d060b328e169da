"""Layers of lower rank."""

from sigmascope.diagnosis.compression.truncation import Compression, Truncation, compression

__all__ = ["Compression", "Truncation", "compression"]

"""Runs on disk: one SQLite file per run, append-only, readable while it grows."""

from sigmascope.store.exports import MARKS, Format, export
from sigmascope.store.rows import (
    StoredCheck,
    StoredFinding,
    StoredLayer,
    StoredReading,
    StoredSkip,
    StoredSpectrum,
    StoredWord,
)
from sigmascope.store.runs import Run
from sigmascope.store.tables import VERSION, Table

__all__ = [
    "MARKS",
    "VERSION",
    "Format",
    "Run",
    "StoredCheck",
    "StoredFinding",
    "StoredLayer",
    "StoredReading",
    "StoredSkip",
    "StoredSpectrum",
    "StoredWord",
    "Table",
    "export",
]

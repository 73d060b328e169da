"""Runs on disk: one SQLite file per run, append-only, sealed, readable while it grows."""

from sigmascope.store.exports import Format, export, salvage
from sigmascope.store.refusals import Damaged, Unwritable
from sigmascope.store.rows import (
    StoredCheck,
    StoredFinding,
    StoredLayer,
    StoredReading,
    StoredSkip,
    StoredSpectrum,
    StoredView,
    StoredWord,
)
from sigmascope.store.runs import Run
from sigmascope.store.tables import VERSION, Table

__all__ = [
    "VERSION",
    "Damaged",
    "Format",
    "Run",
    "StoredCheck",
    "StoredFinding",
    "StoredLayer",
    "StoredReading",
    "StoredSkip",
    "StoredSpectrum",
    "StoredView",
    "StoredWord",
    "Table",
    "Unwritable",
    "export",
    "salvage",
]

"""Runs on disk: one SQLite file per run, append-only, sealed, readable while it grows."""

from sigmascope.store.exports import Format, export, salvage
from sigmascope.store.refusals import Damaged, Unwritable
from sigmascope.store.rows import Asked, Row, Word
from sigmascope.store.runs import Run
from sigmascope.store.tables import VERSION, Table

__all__ = [
    "VERSION",
    "Asked",
    "Damaged",
    "Format",
    "Row",
    "Run",
    "Table",
    "Unwritable",
    "Word",
    "export",
    "salvage",
]

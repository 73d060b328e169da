"""Runs on disk: one SQLite file per run, append-only, sealed, readable while it grows."""

from sigmascope.store.exports import Format, export, salvage
from sigmascope.store.refusals import Damaged, Replaced, Unwritable, is_run
from sigmascope.store.rows import Asked, Row, Word
from sigmascope.store.runs import Run
from sigmascope.store.tables import COLUMNS, VERSION, Table
from sigmascope.store.tails import Fresh, Mark, since

__all__ = [
    "COLUMNS",
    "VERSION",
    "Asked",
    "Damaged",
    "Format",
    "Fresh",
    "Mark",
    "Replaced",
    "Row",
    "Run",
    "Table",
    "Unwritable",
    "Word",
    "export",
    "is_run",
    "salvage",
    "since",
]

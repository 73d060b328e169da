"""Runs on disk: one SQLite file per run, append-only, with checksums, readable while it grows."""

from sigmascope.store.exports import Format, export, salvage
from sigmascope.store.files import Damaged, Replaced, Unwritable, is_run
from sigmascope.store.following import Fresh, since
from sigmascope.store.integrity import Position
from sigmascope.store.rows import AskedView, Row, Word
from sigmascope.store.runs import Run
from sigmascope.store.schema import COLUMNS, VERSION, Table

__all__ = [
    "COLUMNS",
    "VERSION",
    "AskedView",
    "Damaged",
    "Format",
    "Fresh",
    "Position",
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

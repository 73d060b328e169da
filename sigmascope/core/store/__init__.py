"""Runs on disk: one SQLite file per run, append-only, with checksums, readable while it grows."""

from sigmascope.core.store.exports import Format, export, salvage
from sigmascope.core.store.files import Damaged, Replaced, Unwritable, is_run
from sigmascope.core.store.following import Fresh, since
from sigmascope.core.store.integrity import Position
from sigmascope.core.store.rows import AskedView, Row, Word
from sigmascope.core.store.runs import Run
from sigmascope.core.store.schema import COLUMNS, VERSION, Table

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

"""The tables of a run file, version 1."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

APPLICATION = 0x5349474D  # "SIGM": SQLite's application_id, bytes 68 to 71 of the file
VERSION = 1  # SQLite's user_version, bytes 60 to 63 of the file

Table = Literal["environment", "layers", "readings", "spectra", "checks", "findings", "skipped"]

_ESTIMATE = {"value": "REAL", "low": "REAL", "high": "REAL", "how": "TEXT", "risk": "REAL"}
_PLACE = {"site": "TEXT", "view": "TEXT", "form": "TEXT"}

# What a writer supplies; every table begins with (id, step, time) besides.
COLUMNS: Mapping[Table, Mapping[str, str]] = MappingProxyType(
    {
        "environment": {"name": "TEXT", "value": "TEXT"},
        "layers": {"site": "TEXT", "kind": "TEXT", "depth": "INTEGER", "parameters": "TEXT"},
        "readings": {**_PLACE, "quantity": "TEXT", **_ESTIMATE},
        "spectra": {
            **_PLACE,
            "rows": "INTEGER",
            "cols": "INTEGER",
            "how": "TEXT",
            "risk": "REAL",
            "sigma": "BLOB",  # float64, little endian, descending
            "low": "BLOB NULL",  # NULL where the interval is sigma itself
            "high": "BLOB NULL",
        },
        "checks": {
            "theorem": "TEXT",
            "source": "TEXT",
            "statement": "TEXT",
            "site": "TEXT",
            "sense": "TEXT",
            "verdict": "TEXT",
            "assumptions": "TEXT",  # JSON: [[says, met or null], ...]
            **{f"measured_{name}": kind for name, kind in _ESTIMATE.items()},
            **{f"limit_{name}": kind for name, kind in _ESTIMATE.items()},
        },
        "findings": {
            "name": "TEXT",
            "site": "TEXT",
            "severity": "TEXT",
            "says": "TEXT",
            "source": "TEXT",
            "evidence": "TEXT",  # JSON: a list of readings
            "remedies": "TEXT",  # JSON: a list of sentences
        },
        "skipped": {"site": "TEXT", "what": "TEXT", "why": "TEXT"},
    }
)


def script() -> str:
    """The SQL that makes an empty file a run file."""
    return "".join(
        (
            "BEGIN;",
            f"PRAGMA application_id = {APPLICATION};",
            f"PRAGMA user_version = {VERSION};",
            *(_create(table) for table in COLUMNS),
            "CREATE INDEX readings_by_site ON readings (site, quantity, step);",
            "COMMIT;",
        )
    )


def insertion(table: Table) -> str:
    """The SQL that appends one row."""
    names = ("step", "time", *COLUMNS[table])
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def selection(table: Table) -> str:
    """The SQL that reads a table in the order in which it was written."""
    return f"SELECT {', '.join(('step', 'time', *COLUMNS[table]))} FROM {table} ORDER BY id"


def _create(table: Table) -> str:
    columns = "".join(f", {name} {_strictly(kind)}" for name, kind in COLUMNS[table].items())
    says = f"SELECT RAISE(ABORT, 'a run file is append-only: {table} keeps every row');"
    return (
        f"CREATE TABLE {table} "
        f"(id INTEGER PRIMARY KEY, step INTEGER NOT NULL, time TEXT NOT NULL{columns});"
        f"CREATE TRIGGER {table}_keep_update BEFORE UPDATE ON {table} BEGIN {says} END;"
        f"CREATE TRIGGER {table}_keep_delete BEFORE DELETE ON {table} BEGIN {says} END;"
        # INSERT OR REPLACE removes a row without firing a delete trigger
        f"CREATE TRIGGER {table}_keep_replace BEFORE INSERT ON {table} "
        f"WHEN NEW.id IN (SELECT id FROM {table}) BEGIN {says} END;"
    )


def _strictly(kind: str) -> str:
    return kind if kind.endswith("NULL") else f"{kind} NOT NULL"

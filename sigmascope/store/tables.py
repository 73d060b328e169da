"""The tables of a run file, version 2, and what of them version 1 lacks.

Besides the tables of `COLUMNS` a file of version 2 holds one row that names the run (`identity`)
and one row for every step appended (`seals`), with the checksums of its rows.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

APPLICATION = 0x5349474D  # "SIGM": SQLite's application_id, bytes 68 to 71 of the file
VERSION = 2  # SQLite's user_version, bytes 60 to 63 of the file

Table = Literal[
    "environment", "views", "layers", "readings", "spectra", "checks", "findings", "skipped"
]

_ESTIMATE = {"value": "REAL", "low": "REAL", "high": "REAL", "how": "TEXT", "risk": "REAL"}
_SIDES = {
    f"{side}_{name}": f"{kind} NULL"  # NULL where the theorem does not apply
    for side in ("measured", "limit")
    for name, kind in _ESTIMATE.items()
}
_PLACE = {"site": "TEXT", "view": "TEXT", "form": "TEXT"}

# What a writer supplies; every table begins with (id, step, time) besides.
COLUMNS: Mapping[Table, Mapping[str, str]] = MappingProxyType(
    {
        "environment": {"name": "TEXT", "value": "TEXT"},
        "views": {"view": "TEXT"},  # what was asked for
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
            **_SIDES,
        },
        "findings": {
            "name": "TEXT",
            "site": "TEXT",
            "severity": "TEXT",
            "says": "TEXT",
            "source": "TEXT",
            "evidence": "TEXT",  # JSON: a list of readings
            "remedies": "TEXT",  # JSON: a list of sentences
            "follows": "TEXT",  # name of another finding, or empty
        },
        "skipped": {"site": "TEXT", "what": "TEXT", "why": "TEXT"},
    }
)


def script(identity: str = "", version: int = VERSION) -> str:
    """The SQL that makes an empty file a run file; `identity` is 32 hexadecimal digits."""
    return "".join(
        (
            "BEGIN;",
            f"PRAGMA application_id = {APPLICATION};",
            f"PRAGMA user_version = {version};",
            *(_create(table, _columns(table, version)) for table in tables(version)),
            "CREATE INDEX readings_by_site ON readings (site, quantity, step);",
            *((_seals(), f"INSERT INTO identity (run) VALUES ('{identity}');") * (version > 1)),
            "COMMIT;",
        )
    )


def tables(version: int = VERSION) -> tuple[Table, ...]:
    """The tables of measurements that a file of this version has."""
    return tuple(table for table in COLUMNS if version > 1 or table != "views")


def insertion(table: Table) -> str:
    """The SQL that appends one row."""
    names = ("step", "time", *COLUMNS[table])
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def selection(table: Table, version: int = VERSION) -> str:
    """The SQL that reads a table in the order in which it was written, in the form of `COLUMNS`."""
    if table not in tables(version):
        nulls = ", ".join("NULL" for _ in ("step", "time", *COLUMNS[table]))
        return f"SELECT {nulls} WHERE 0"
    names = (name if version > 1 else _at_first(name) for name in COLUMNS[table])
    return f"SELECT {', '.join(('step', 'time', *names))} FROM {table} ORDER BY id"


def sealed(table: Table) -> str:
    """The SQL that reads the rows from one number to another, with their numbers."""
    names = ("id", "step", "time", *COLUMNS[table])
    return f"SELECT {', '.join(names)} FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id"


def _at_first(name: str) -> str:
    """A column as version 1 has it: no `follows`, and a side that does not apply has no route."""
    if name == "follows":
        return "''"
    if name not in _SIDES:
        return name
    return f"CASE {name.split('_')[0]}_how WHEN '' THEN NULL ELSE {name} END"


def _columns(table: Table, version: int) -> Mapping[str, str]:
    if version > 1:
        return COLUMNS[table]
    return {
        name: kind.removesuffix(" NULL") if table == "checks" else kind
        for name, kind in COLUMNS[table].items()
        if name != "follows"
    }


def _seals() -> str:
    # AUTOINCREMENT, for then SQLite itself remembers how many there have been
    number = "id INTEGER PRIMARY KEY AUTOINCREMENT"
    kinds = {"rows": "TEXT", "previous": "TEXT", "seal": "TEXT"}
    one = "CREATE TABLE identity (id INTEGER PRIMARY KEY CHECK (id = 1), run TEXT NOT NULL);"
    return one + _keep("identity") + _create("seals", kinds, number)


def _create(table: str, columns: Mapping[str, str], number: str = "id INTEGER PRIMARY KEY") -> str:
    listed = "".join(f", {name} {_strictly(kind)}" for name, kind in columns.items())
    head = f"CREATE TABLE {table} ({number}, step INTEGER NOT NULL, time TEXT NOT NULL{listed});"
    return head + _keep(table)


def _keep(table: str) -> str:
    says = f"SELECT RAISE(ABORT, 'a run file is append-only: {table} keeps every row');"
    return (
        f"CREATE TRIGGER {table}_keep_update BEFORE UPDATE ON {table} BEGIN {says} END;"
        f"CREATE TRIGGER {table}_keep_delete BEFORE DELETE ON {table} BEGIN {says} END;"
        # INSERT OR REPLACE removes a row without firing a delete trigger
        f"CREATE TRIGGER {table}_keep_replace BEFORE INSERT ON {table} "
        f"WHEN NEW.id IN (SELECT id FROM {table}) BEGIN {says} END;"
    )


def _strictly(kind: str) -> str:
    return kind if kind.endswith("NULL") else f"{kind} NOT NULL"

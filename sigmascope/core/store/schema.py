"""The tables of a run file, and what of them older formats lack.

Besides the tables of `COLUMNS` a run file holds one row for every step that was appended, with a
checksum of the step's rows in each table: `steps` from format 3 on, `seals` in format 2; format 1
has no checksums. Facts are in files from format 4 on, sizes of layers from format 5 on.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

APPLICATION = 0x5349474D  # "SIGM": SQLite's application_id, bytes 68 to 71 of the file
VERSION = 5  # SQLite's user_version, bytes 60 to 63 of the file
STEPS: Mapping[int, str] = MappingProxyType({2: "seals", 3: "steps", 4: "steps", 5: "steps"})

Table = Literal[
    "environment",
    "views",
    "layers",
    "readings",
    "facts",
    "spectra",
    "checks",
    "findings",
    "skipped",
]
_SIZES = {
    "reads": "TEXT",  # JSON: a list of whole numbers
    "writes": "TEXT",
    "numbers": "INTEGER",
    "multiply_adds": "INTEGER NULL",  # NULL where the arithmetic of a layer is not known
}
SINCE: Mapping[str, int] = MappingProxyType(
    {"views": 2, "follows": 2, "facts": 4, **dict.fromkeys(_SIZES, 5)}
)
# what stands in the place of a column that an older format lacks; an empty word if nothing is said
BEFORE: Mapping[str, str] = MappingProxyType(
    {"facts": "'[]'", "reads": "'[]'", "writes": "'[]'", "numbers": "0", "multiply_adds": "NULL"}
)

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
        "layers": {
            **{"site": "TEXT", "kind": "TEXT", "depth": "INTEGER", "parameters": "TEXT"},
            **_SIZES,
        },
        "readings": {**_PLACE, "quantity": "TEXT", **_ESTIMATE},
        "facts": {"site": "TEXT", "view": "TEXT", "quantity": "TEXT", "word": "TEXT"},
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
            "facts": "TEXT",  # JSON: a list of facts
        },
        "skipped": {"site": "TEXT", "what": "TEXT", "why": "TEXT"},
    }
)


def script() -> str:
    """The SQL that makes an empty database a run file of the present format."""
    key = "id INTEGER PRIMARY KEY"
    # AUTOINCREMENT, for then SQLite itself remembers how many steps there have been
    tables = {"steps": (f"{key} AUTOINCREMENT", {"rows": "TEXT"})}
    tables |= {table: (key, COLUMNS[table]) for table in COLUMNS}
    lines = [f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"]
    for table, (number, columns) in tables.items():
        kinds = {"step": "INTEGER", "time": "TEXT", **columns}
        cells = (f"{n} {k if k.endswith('NULL') else f'{k} NOT NULL'}" for n, k in kinds.items())
        lines.append(f"CREATE TABLE {table} ({', '.join((number, *cells))})")
    lines.append("CREATE INDEX readings_by_site ON readings (site, quantity, step)")
    return ";\n".join(["BEGIN", *lines, "COMMIT;"])


def tables(version: int = VERSION) -> tuple[Table, ...]:
    """The tables of measurements that a file of this format has."""
    return tuple(table for table in COLUMNS if SINCE.get(table, version) <= version)


def written(table: Table, version: int = VERSION) -> int:
    """How many cells a row has in this format: step, time, and the columns that there were."""
    return 2 + sum(SINCE.get(name, version) <= version for name in COLUMNS[table])


def insertion(table: Table) -> str:
    """The SQL that appends one row."""
    names = ("step", "time", *COLUMNS[table])
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def selection(table: Table, version: int = VERSION) -> str:
    """The SQL that reads rows after a number, with their numbers, in the order of writing."""
    names = []
    for name in COLUMNS[table]:
        if SINCE.get(name, version) > version:
            names.append(BEFORE.get(name, "''"))
        elif name in _SIDES and version == 1:  # where a side that does not apply has no route
            names.append(f"CASE {name.split('_')[0]}_how WHEN '' THEN NULL ELSE {name} END")
        else:
            names.append(name)
    return f"SELECT {', '.join(('id', 'step', 'time', *names))} FROM {table} WHERE id > ?"

"""Damage to a run file that goes through SQLite, as another program would do it."""

import sqlite3
from contextlib import closing, contextmanager

TABLES = (
    "environment",
    "views",
    "layers",
    "readings",
    "facts",
    "spectra",
    "checks",
    "findings",
    "skipped",
)
CELLS = {  # a column of text, of a number or of bytes, and something that it should never hold
    "text": ("readings", "site", b"\x00\xff"),
    "number": ("readings", "value", "many"),
    "bytes": ("spectra", "sigma", b"odd"),
    "json": ("findings", "evidence", '[["a", "b", "c", "d", NaN, 0, 1, "x", 0]]'),
    "time": ("readings", "time", "yesterday"),
    "count": ("layers", "depth", 2**63 - 1),
    "step": ("readings", "step", -(2**63)),
    "null": ("checks", "measured_value", None),
    "utf-8": ("skipped", "why", b"\xff\xfe as text"),
    "another number": ("readings", "high", 1e300),
    "nearly the same number": ("readings", "value", 0.33333333333333337),
    "another word": ("findings", "severity", "note"),
}


@contextmanager
def unsafely(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA synchronous = OFF")  # the disk is not what is tested
        for (name,) in file.execute(
            "SELECT name FROM sqlite_master WHERE type='trigger'"
        ).fetchall():
            file.execute(f"DROP TRIGGER {name}")  # by which older formats kept every row
        yield file


def sql(*statements):
    def change(path, rng):
        with unsafely(path) as file:
            file.execute("PRAGMA ignore_check_constraints = ON")
            file.execute("PRAGMA writable_schema = ON")
            table = rng.choice(TABLES)
            (last,) = file.execute(f"SELECT max(id) FROM {table}").fetchone()
            for statement in statements:
                file.execute(statement.format(table=table, id=rng.randrange(1, last + 1)))

    return change


def cell(kind):
    table, column, value = CELLS[kind]

    def change(path, rng):
        with unsafely(path) as file:
            form = "CAST(? AS TEXT)" if kind == "utf-8" else "?"
            file.execute(f"UPDATE {table} SET {column} = {form} WHERE id = 2 OR id = 1", (value,))

    return change


def raw(statement):
    def change(path, rng):
        with unsafely(path) as file:
            file.execute(statement)

    return change


THROUGH_SQLITE = {
    **{f"a cell with {kind}": cell(kind) for kind in CELLS},
    "a row deleted": sql("DELETE FROM {table} WHERE id = {id}"),
    "a row moved": sql("UPDATE {table} SET id = id + 1000 WHERE id = {id}"),
    "a row inserted": sql(
        "INSERT INTO skipped (step, time, site, what, why) SELECT step, time, 'x', what, why "
        "FROM skipped LIMIT 1"
    ),
    "a table emptied": sql("DELETE FROM {table}"),
    "a table dropped": sql("DROP TABLE {table}"),
    "a column dropped": sql("ALTER TABLE findings DROP COLUMN follows"),
    "a column renamed": sql("ALTER TABLE readings RENAME COLUMN low TO lower"),
    "a step deleted whole": sql(
        *(f"DELETE FROM {table} WHERE step = 2" for table in (*TABLES, "steps"))
    ),
    "a checksum altered": sql("UPDATE steps SET rows = replace(rows, 'a', 'b')"),
    "a checksum without rows": sql("UPDATE steps SET rows = '{{}}' WHERE id = 3"),
    "a checksum that is no text": sql("UPDATE steps SET rows = x'00ff' WHERE id = 1"),
    "a checksum of nonsense": sql("UPDATE steps SET rows = '[1, {{}}, null]' WHERE id = 1"),
    "a checksum deleted": sql("DELETE FROM steps WHERE id = 2"),
    "all checksums deleted": sql("DELETE FROM steps"),
    "the count of steps altered": sql("UPDATE sqlite_sequence SET seq = 9000000000000000000"),
    "the index dropped": raw("DROP INDEX readings_by_site"),
    "vacuumed": raw("VACUUM"),
    "log turned off": raw("PRAGMA journal_mode = DELETE"),
}

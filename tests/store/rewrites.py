"""Damage to a run file that goes through SQLite, as another program would do it."""

import sqlite3
from contextlib import closing, contextmanager

TABLES = (
    "environment",
    "views",
    "layers",
    "readings",
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
TABLES_THERE = "SELECT name FROM sqlite_master WHERE type = 'table'"


@contextmanager
def unsafely(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA synchronous = OFF")  # the disk is not what is tested
        yield file


@contextmanager
def rewriting(path):
    """The file through SQLite, with nothing to guard it; the guards are back afterwards."""
    with unsafely(path) as file:
        guards = file.execute("SELECT name, sql FROM sqlite_master WHERE type='trigger'").fetchall()
        for name, _ in guards:
            file.execute(f"DROP TRIGGER {name}")
        yield file
        left = {name for (name,) in file.execute(TABLES_THERE)}
        for name, sql in guards:
            if name.rpartition("_keep_")[0] in left:
                file.execute(sql)


def sql(*statements):
    def change(path, rng):
        with rewriting(path) as file:
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
        with rewriting(path) as file:
            form = "CAST(? AS TEXT)" if kind == "utf-8" else "?"
            file.execute(f"UPDATE {table} SET {column} = {form} WHERE id = 2 OR id = 1", (value,))

    return change


def raw(statement):
    def change(path, rng):
        with unsafely(path) as file:
            file.execute(statement)

    return change


LAST = "(SELECT max(step) FROM seals)"
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
        *(f"DELETE FROM {table} WHERE step = 2" for table in (*TABLES, "seals"))
    ),
    "the last step deleted whole": sql(
        *(f"DELETE FROM {table} WHERE step = {LAST}" for table in (*TABLES, "seals"))
    ),
    "a checksum altered": sql("UPDATE seals SET seal = lower(hex(randomblob(32))) WHERE id = 2"),
    "a checksum of rows altered": sql("UPDATE seals SET rows = replace(rows, 'a', 'b')"),
    "a checksum without rows": sql("UPDATE seals SET rows = '{{}}' WHERE id = 3"),
    "a checksum that is no text": sql("UPDATE seals SET rows = x'00ff', seal = 7 WHERE id = 1"),
    "a checksum of nonsense": sql("UPDATE seals SET rows = '[1, {{}}, null]' WHERE id = 1"),
    "a checksum deleted": sql("DELETE FROM seals WHERE id = 2"),
    "all checksums deleted": sql("DELETE FROM seals"),
    "the count of steps altered": sql("UPDATE sqlite_sequence SET seq = 9000000000000000000"),
    "another name of the run": sql("UPDATE identity SET run = 'me'"),
    "no name of the run": sql("DELETE FROM identity"),
    "a guard dropped": raw("DROP TRIGGER readings_keep_update"),
    "a guard added": raw("CREATE TRIGGER x AFTER INSERT ON seals BEGIN DELETE FROM seals; END"),
    "the index dropped": raw("DROP INDEX readings_by_site"),
    "an endless view for a table": sql(
        "DROP TABLE skipped",
        "CREATE VIEW skipped AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) "
        "SELECT id, 1 AS step, '' AS time, '' AS site, '' AS what, '' AS why FROM n",
    ),
    "vacuumed": raw("VACUUM"),
    "log turned off": raw("PRAGMA journal_mode = DELETE"),
}

"""The tables of a run file, and what older formats lack comes back empty."""

import sqlite3
from contextlib import closing

import pytest

from sigmascope.core.store.schema import COLUMNS, VERSION, insertion, script, selection, tables


@pytest.fixture
def file():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        file.executescript(script())
        yield file


def test_sqlite_has_the_columns_that_are_declared(file):
    """By SQLite's own account: names in their order, and which may be empty."""
    assert file.execute("PRAGMA user_version").fetchone() == (VERSION,)
    for table in tables():
        told = file.execute(f"PRAGMA table_info({table})").fetchall()
        assert [row[1] for row in told] == ["id", "step", "time", *COLUMNS[table]]
        empty = [row[1] for row in told[1:] if not row[3]]
        assert empty == [n for n, kind in COLUMNS[table].items() if kind.endswith(" NULL")]
    told = file.execute("PRAGMA table_info(steps)").fetchall()
    assert [row[1] for row in told] == ["id", "step", "time", "rows"]


def test_what_is_inserted_is_selected_in_the_order_in_which_it_came(file):
    rows = [(5, "then", "head", "weights", "why"), (2, "now", "body", "weights", "why not")]
    file.executemany(insertion("skipped"), rows)
    assert file.execute(selection("skipped"), (0,)).fetchall() == [(1, *rows[0]), (2, *rows[1])]
    assert file.execute(selection("skipped"), (1,)).fetchall() == [(2, *rows[1])]


@pytest.mark.parametrize(
    ("version", "lacks"), [(1, {"follows": "", "facts": "[]"}), (3, {"facts": "[]"})]
)
def test_what_an_older_format_lacks_is_selected_empty(file, version, lacks):
    assert {*tables()} - {*tables(version)} == {"facts", *(["views"] if version == 1 else [])}
    for name in lacks:
        file.execute(f"ALTER TABLE findings DROP COLUMN {name}")
    names = [n for n in COLUMNS["findings"] if n not in lacks]
    cells = (0, "now", *(f"a {n}" for n in names))
    marks = ", ".join("?" * len(cells))
    file.execute(f"INSERT INTO findings (step, time, {', '.join(names)}) VALUES ({marks})", cells)
    found = file.execute(selection("findings", version), (0,)).fetchall()
    assert found == [(1, *cells, *lacks.values())]

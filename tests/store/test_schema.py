"""The tables of a run file, and what older formats lack comes back empty."""

import sqlite3
from contextlib import closing

import pytest

from sigmascope.store.schema import COLUMNS, insertion, script, selection, tables


@pytest.fixture
def file():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        file.executescript(script())
        yield file


def test_sqlite_has_the_columns_that_are_declared(file):
    """By SQLite's own account: names in their order, and which may be empty."""
    assert file.execute("PRAGMA user_version").fetchone() == (3,)
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


def test_what_format_1_lacks_is_selected_empty(file):
    assert "views" not in tables(1)
    assert tables(2) == tables(3) == tables()
    file.execute("ALTER TABLE findings DROP COLUMN follows")
    cells = (0, "now", "name", "site", "note", "says", "source", "[]", "[]")
    names = [n for n in COLUMNS["findings"] if n != "follows"]
    file.execute(
        f"INSERT INTO findings (step, time, {', '.join(names)}) VALUES ({', '.join('?' * 9)})",
        cells,
    )
    assert file.execute(selection("findings", 1), (0,)).fetchall() == [(1, *cells, "")]

"""The tables of a run file: append-only, and what format 1 lacks comes back empty."""

import sqlite3
from contextlib import closing

import pytest

from sigmascope.store import Run
from sigmascope.store.tables import COLUMNS, insertion, script, sealed, selection, tables

TABLES = ("environment", "layers", "readings", "spectra", "checks", "findings", "skipped")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", ["UPDATE {} SET step = 9", "DELETE FROM {}", "REPLACE INTO {}"])
def test_nothing_in_a_run_can_be_changed(tmp_path, profile, findings, table, verb):
    path = tmp_path / "a.run"
    with Run(path) as run:
        run.add_profile(profile, findings)
    with closing(sqlite3.connect(path)) as db:
        sql = verb.format(table)
        if verb.startswith("REPLACE"):
            sql += f" SELECT * FROM {table}"
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(sql)


@pytest.mark.parametrize("version", [1, 2])
def test_sqlite_has_the_columns_that_are_declared(version):
    """By SQLite's own account: names in their order, and which may be empty."""
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(script(32 * "0", version))
        (found,) = file.execute("PRAGMA user_version").fetchone()
        assert found == version
        for table in tables(version):
            told = file.execute(f"PRAGMA table_info({table})").fetchall()
            names = ["id", "step", "time", *COLUMNS[table]]
            if version == 1:
                names = [n for n in names if n != "follows"]
            assert [row[1] for row in told] == names
            if version > 1:
                empty = [row[1] for row in told[1:] if not row[3]]
                assert empty == [n for n, kind in COLUMNS[table].items() if kind.endswith(" NULL")]
        there = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        assert ("seals" in there) is ("views" in there) is ("identity" in there) is (version > 1)


def test_what_is_inserted_is_selected_in_the_order_in_which_it_came():
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(script(32 * "0"))
        rows = [(5, "then", "head", "weights", "why"), (2, "now", "body", "weights", "why not")]
        file.executemany(insertion("skipped"), rows)
        assert file.execute(selection("skipped")).fetchall() == rows
        assert file.execute(sealed("skipped"), (2, 2)).fetchall() == [(2, *rows[1])]


def test_what_format_1_lacks_is_selected_empty():
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(script("", 1))
        views = file.execute(selection("views", 1))
        assert len(views.description) == 2 + len(COLUMNS["views"])
        assert views.fetchall() == []
        cells = (0, "now", "name", "site", "note", "says", "source", "[]", "[]")
        names = [n for n in COLUMNS["findings"] if n != "follows"]
        file.execute(
            f"INSERT INTO findings (step, time, {', '.join(names)}) VALUES ({', '.join('?' * 9)})",
            cells,
        )
        assert file.execute(selection("findings", 1)).fetchall() == [(*cells, "")]

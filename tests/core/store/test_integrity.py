"""What was written is told from what was not, by the checksums that went with each step."""

import json
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest

from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Damaged, Run, integrity
from sigmascope.core.store.files import snapshot
from sigmascope.core.store.integrity import Position, checked, parsed, require_whole, steps
from tests.core.store.one_reading import READING
from tests.core.store.rewrites import unsafely

STEPS = (0, 10, 20)
TIME = "2026-01-02T03:04:05.000006+00:00"


@pytest.fixture
def path(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as run:
        for step in STEPS:
            run.add_profile(profile, findings, step=step)
    return tmp_path / "a.run"


def line(row):
    plain = [{"sha256": sha256(c).hexdigest()} if isinstance(c, bytes) else c for c in row]
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("table", ["readings", "spectra"])
def test_a_checksum_is_the_sha_256_of_the_rows_as_json(path, table):
    with closing(sqlite3.connect(path)) as file:
        (spans,) = file.execute("SELECT rows FROM steps WHERE step = 10").fetchone()
        rows = file.execute(f"SELECT * FROM {table} WHERE step = 10 ORDER BY id").fetchall()
    whole = sha256(b"".join(map(line, rows))).hexdigest()
    assert parsed(spans)[table] == (rows[0][0], len(rows), whole)


def test_a_whole_file_is_whole(path):
    with snapshot(path) as found:
        require_whole(found)
        reached = list(steps(found, Position()))
        assert [mark.last[1] for mark, _ in reached] == [*STEPS]
        assert [*steps(found, reached[-1][0])] == []
        ((mark, cells),) = steps(found, reached[1][0], of=["readings"])
    assert (mark.last[:2], mark.ends["readings"]) == ((3, 20), 6)
    assert cells.keys() == {"readings"}
    assert {row[0] for row in cells["readings"]} == {20}


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM readings WHERE id = 6", "readings of step 20 are not those.*2 rows from"),
        ("UPDATE readings SET value = 9 WHERE id = 1", "readings of step 0.*checksum .*expected"),
        ("DELETE FROM steps WHERE id = 2", "step number 2 was expected, 3 came"),
        ("DELETE FROM steps WHERE id = 3", "2 are there, and not as many were written"),
        ("UPDATE steps SET step = 11 WHERE id = 2", r"step 11 of .* was expected, \(10, "),
        ("UPDATE steps SET rows = '[1]' WHERE id = 2", "its steps cannot be read"),
        (
            'UPDATE steps SET rows = \'{"moods": [1, 2, "3"]}\'',
            r"what a step brought was expected, .*moods",
        ),
        ("INSERT INTO views (step, time, view) VALUES (20, 'now', 'x')", "views belong to none"),
        ("DROP TABLE skipped", "the tables of format 5 were expected"),
        ("ALTER TABLE findings DROP COLUMN follows", "no such column: follows"),
        ("PRAGMA user_version = 2", "the tables of format 2 were expected"),
        ("PRAGMA user_version = 1", "the tables of format 1 were expected"),
        ("PRAGMA user_version = 0", "its format is 0"),
    ],
)
def test_damage_is_named(path, statement, says):
    with unsafely(path) as file:
        file.execute(statement)
    with pytest.raises(Damaged, match=says), snapshot(path) as found:
        require_whole(found)


def test_pages_that_do_not_fit_together_are_named(path):
    with unsafely(path) as file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("DELETE FROM sqlite_master WHERE name = 'readings_by_site'")
    with pytest.raises(Damaged, match="its pages do not fit together"), snapshot(path) as found:
        require_whole(found)


def test_rows_are_read_only_where_they_are_asked_for(path):
    with unsafely(path) as file:
        file.execute("UPDATE readings SET value = 9")
    with snapshot(path) as found:
        assert len([*steps(found, Position(), of=["findings"])]) == 3
        with pytest.raises(Damaged, match="readings of step 0"):
            next(steps(found, Position(), of=["readings"]))


def test_checked_rows_are_those_of_the_step():
    row = (4, 7, TIME, "head", "weights", "lazy")
    span = (4, 1, sha256(line(row)).hexdigest())
    assert checked([row], span, (7, TIME), 5) == [row[1:]]
    later = (*row, "of a later format")
    assert checked([later], span, (7, TIME), 5) == [later[1:]]
    with pytest.raises(ValueError, match="2 rows from number 4 on were expected, 1 came"):
        checked([row], (4, 2, span[2]), (7, TIME), 5)
    with pytest.raises(ValueError, match=f"checksum {span[2][:12]}… was expected"):
        checked([(*row[:-1], "lazier")], span, (7, TIME), 5)
    with pytest.raises(ValueError, match=r"step 8 of .* was expected"):
        checked([row], span, (8, TIME), 5)


@pytest.mark.parametrize(
    ("table", "cells", "says"),
    [
        ("views", (0, TIME, 1), "views.view must be TEXT, got int"),
        ("views", ("0", TIME, "weights"), "views.step must be INTEGER, got str"),
        ("views", (0, None, "weights"), "views.time must be TEXT, got NoneType"),
        ("readings", (0, TIME, *"abcd", float("nan"), 0.0, 1.0, "", 0.0), "value is not a number"),
        ("readings", (0, TIME, *"abcd", 1, 0.0, 1.0, "", 0.0), "value must be REAL, got int"),
        (
            "spectra",
            (0, TIME, *"abc", 1, 1, "", 0.0, b"seven by", None, b"seven"),
            "high has 5 bytes, no multiple of 8",
        ),
    ],
)
def test_cells_are_of_the_kinds_of_their_columns(table, cells, says):
    with pytest.raises(TypeError, match=says):
        integrity._require_kinds(table, cells)


def test_a_cell_may_be_empty_where_its_column_says_so():
    integrity._require_kinds("spectra", (0, TIME, *"abc", 1, 1, "", 0.0, bytes(16), None, None))
    with pytest.raises(TypeError, match="sigma must be BLOB, got NoneType"):
        integrity._require_kinds("spectra", (0, TIME, *"abc", 1, 1, "", 0.0, None, None, None))


def test_the_checksum_is_of_what_sqlite_made_of_the_cells(path):
    """A whole number in a column of floats comes back as a float."""
    whole = Reading("fc", "rank", Estimate(2, 1, 3, "free", 0), "weights", "matrix")
    with Run(path) as run:
        run.add(step=30, readings=[READING, whole])
        assert [r.estimate.value for r in run.readings()][-2:] == [1.5, 2.0]

"""What is new in a run file is read without the rest, and checked."""

import shutil
import sqlite3
import threading
import time

import pytest

from sigmascope.store import Damaged, Replaced, Run, is_run, since, tails
from tests.store.one_reading import READING
from tests.store.rewrites import rewriting
from tests.store.test_versions import OLD


@pytest.fixture
def path(tmp_path):
    with Run(tmp_path / "a.run") as run:
        for step in (0, 10, 20):
            run.add(step=step, readings=[READING] * 3, about={"at": str(step)})
    return tmp_path / "a.run"


def grow(path, *steps):
    with Run(path) as run:
        for step in steps:
            run.add(step=step, readings=[READING])


def read_all(path):
    fresh = since(path)
    while fresh.more:
        fresh = since(path, fresh.mark)


def steps(fresh):
    return [cells[0] for cells in fresh.rows.get("readings", ())]


def test_looks_bring_what_the_whole_reader_brings(path):
    everything = since(path)
    with Run(path, write=False) as run:
        for table in ("readings", "environment"):
            assert everything.rows[table] == list(run.cells(table))
    assert not everything.more
    assert since(path, everything.mark).rows == {}
    grow(path, 30, 40)
    later = since(path, everything.mark)
    assert steps(later) == [30, 40]
    assert since(path, later.mark).mark == later.mark


def test_a_look_ends_after_so_many_rows_with_a_whole_step(path):
    mark, found = None, []
    for _ in range(3):
        fresh = since(path, mark, most=1)
        found.append(steps(fresh))
        mark = fresh.mark
    assert found == [[0] * 3, [10] * 3, [20] * 3]
    assert not since(path, mark).more


def test_what_was_read_is_not_read_again(path, monkeypatch):
    first = since(path)
    grow(path, 30)
    asked = []
    fetched = tails.seals.fetched
    note = lambda file, table, span: asked.append(span.count) or fetched(file, table, span)
    monkeypatch.setattr(tails.seals, "fetched", note)
    since(path, first.mark)
    assert asked == [1]


def test_steps_before_a_damaged_one_come_first(path):
    with rewriting(path) as file:
        file.execute("UPDATE readings SET value = 9, high = 9 WHERE step = 20")
    fresh = since(path)
    assert steps(fresh) == [0] * 3 + [10] * 3
    assert fresh.more
    with pytest.raises(Damaged, match="readings of step 20 are not those that were written"):
        since(path, fresh.mark)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM readings WHERE id = 9", "readings of step 20 .*3 rows were written and 2"),
        ("DELETE FROM seals WHERE id = 2", "step 20 does not follow"),
        ("DELETE FROM seals WHERE id = 3", "3 were appended and 2 are there"),
        ("UPDATE seals SET step = 11 WHERE id = 2", "its own checksum"),
        ("INSERT INTO views (step, time, view) VALUES (20, 'now', 'x')", "belong to no step"),
        ("CREATE TRIGGER x AFTER INSERT ON seals BEGIN SELECT 1; END", "x added"),
        ("DELETE FROM identity", "it has no name"),
    ],
)
def test_damage_is_named_when_it_is_reached(path, statement, says):
    with rewriting(path) as file:
        file.execute(statement)
    with pytest.raises(Damaged, match=says):
        read_all(path)


def test_another_run_in_its_place_is_told_from_damage(path, tmp_path):
    mark = since(path).mark
    shutil.copy(path, tmp_path / "before.run")
    grow(path, 30)
    later = since(path, mark).mark
    (tmp_path / "before.run").replace(path)  # an older state of the same run
    with pytest.raises(Replaced, match="step 30, which was read before, is no longer in it"):
        since(path, later)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no run file at"):
        since(path, mark)
    grow(path, 0)
    with pytest.raises(Replaced, match=r"was expected, .* came\. Read it anew"):
        since(path, mark)


def test_a_run_is_followed_while_another_thread_writes_it(path):
    thread = threading.Thread(target=grow, args=(path, *range(30, 60)))
    thread.start()
    mark, found, end = None, [], time.monotonic() + 60
    while time.monotonic() < end:
        fresh = since(path, mark)
        mark = fresh.mark
        found += steps(fresh)
        if not thread.is_alive() and not fresh.rows:
            break
    thread.join()
    assert found == [0] * 3 + [10] * 3 + [20] * 3 + [*range(30, 60)]


def test_steps_that_a_killed_writer_left_in_its_log_are_read(path, monkeypatch):
    mark = since(path).mark
    held = sqlite3.connect(path)  # as long as it reads, the log stays beside the file
    held.execute("BEGIN")
    held.execute("SELECT count(*) FROM seals").fetchone()
    grow(path, 30)
    assert path.with_name("a.run-wal").exists()
    monkeypatch.setattr(tails, "_PAUSE", 0.0)
    assert steps(since(path, mark)) == [30]
    held.close()


def test_a_file_of_format_one_is_read_at_once():
    fresh = since(OLD)
    with Run(OLD, write=False) as run:
        assert fresh.rows["readings"] == list(run.cells("readings"))
    assert since(OLD, fresh.mark).rows == {}


def test_a_run_file_is_told_from_others(path, tmp_path):
    (tmp_path / "b").write_bytes(b"x" * 200)
    assert is_run(path)
    assert not any(map(is_run, (tmp_path / "b", tmp_path / "none", tmp_path, "/dev/null")))


def test_a_run_without_a_step_is_sound_and_its_first_step_is_new(tmp_path):
    with Run(tmp_path / "a.run") as run:
        fresh = since(tmp_path / "a.run", None)
        assert (fresh.rows, fresh.more) == ({}, False)
        run.add(step=1, readings=[READING])
    again = since(tmp_path / "a.run", fresh.mark)
    assert [len(rows) for table, rows in again.rows.items() if table == "readings"] == [1]

"""What is new in a run file is read without the rest, and checked."""

import os
import shutil
import sqlite3
import threading
import time

import pytest

from sigmascope.core.store import Damaged, Replaced, Run, files, integrity, since
from tests.core.store.one_reading import READING
from tests.core.store.rewrites import unsafely
from tests.core.store.test_versions import FILES


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
    checked = integrity.checked
    note = lambda rows, span, when, known: (
        asked.append((when[0], span[1])) or checked(rows, span, when, known)
    )
    monkeypatch.setattr(integrity, "checked", note)
    since(path, first.mark)
    assert asked == [(30, 1)]


def test_steps_before_a_damaged_one_come_first(path):
    with unsafely(path) as file:
        file.execute("UPDATE readings SET value = 9, high = 9 WHERE step = 20")
    fresh = since(path)
    assert steps(fresh) == [0] * 3 + [10] * 3
    assert fresh.more
    with pytest.raises(Damaged, match="readings of step 20 are not those that were written"):
        since(path, fresh.mark)


def test_another_run_in_its_place_is_told_from_damage(path, tmp_path):
    mark = since(path).mark
    shutil.copy(path, tmp_path / "before.run")
    grow(path, 30)
    later = since(path, mark).mark
    (tmp_path / "before.run").replace(path)  # an older state of the same run
    with pytest.raises(Replaced, match="step 30, which was read, is no longer in it"):
        since(path, later)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no run file at"):
        since(path, mark)
    grow(path, 0, 10, 20)
    with pytest.raises(Replaced, match=r"step 20, .*Read it anew"):
        since(path, mark)


def test_a_run_is_followed_while_another_thread_writes_it(path):
    thread = threading.Thread(target=grow, args=(path, *range(30, 60)))
    thread.start()
    mark, found, end = None, [], time.monotonic() + 60
    while time.monotonic() < end:
        written = not thread.is_alive()
        fresh = since(path, mark)
        mark = fresh.mark
        found += steps(fresh)
        if written and not fresh.rows:
            break
    thread.join()
    assert found == [0] * 3 + [10] * 3 + [20] * 3 + [*range(30, 60)]


def test_looks_put_nothing_beside_the_file_unless_writers_disturb_them(path, monkeypatch):
    modes = []
    plain = files._reader
    note = lambda real, mode: modes.append(mode) or plain(real, mode)
    monkeypatch.setattr(files, "_reader", note)
    since(path)
    assert modes == ["immutable=1"]

    def disturbed(real, mode):
        os.utime(path)
        time.sleep(0.01)
        return note(real, mode)

    monkeypatch.setattr(files, "_reader", disturbed)
    assert steps(since(path)) == [0] * 3 + [10] * 3 + [20] * 3
    assert modes == ["immutable=1"] * 6 + ["mode=rw"]


def test_steps_in_a_log_are_read_and_the_log_stays(path):
    mark = since(path).mark
    held = sqlite3.connect(path)  # as long as it reads, the log stays beside the file
    held.execute("BEGIN")
    held.execute("SELECT count(*) FROM steps").fetchone()
    grow(path, 30)
    log = path.with_name("a.run-wal")
    before = path.read_bytes(), log.read_bytes()
    assert steps(since(path, mark)) == [30]
    assert (path.read_bytes(), log.read_bytes()) == before
    held.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_format_is_followed(version):
    old = FILES / f"version-{version}.run"
    fresh = since(old)
    with Run(old, write=False) as run:
        assert fresh.rows["readings"] == list(run.cells("readings"))
    assert since(old, fresh.mark).rows == {}


def test_records_that_cannot_be_made_are_damage(path):
    fresh = since(path)
    fresh.rows["readings"][0] = (0, "yesterday", *fresh.rows["readings"][0][2:])
    with pytest.raises(Damaged, match="the readings cannot be read"):
        fresh.records("readings")
    assert [row.value for row in fresh.records("environment")] == ["0", "10", "20"]

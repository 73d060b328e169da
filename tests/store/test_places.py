"""Paths that are no run files, and run files in odd places."""

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from sigmascope.records import Estimate, Reading
from sigmascope.store import Run, Unwritable, appends, export, images
from tests.store.test_kills import child, reported

READING = Reading("fc", "stable rank", Estimate.exactly(1.5), "weights", "matrix")


@pytest.fixture
def path(tmp_path):
    with Run(tmp_path / "a.run") as run:
        run.add(step=0, readings=[READING])
    return tmp_path / "a.run"


def values(path):
    with Run(path, write=False) as run:
        return [(r.step, r.estimate.value) for r in run.readings()]


def fifo(folder):
    os.mkfifo(folder / "x")
    return folder / "x"


def folder(folder):
    (folder / "x").mkdir()
    return folder / "x"


def dangling(folder):
    (folder / "x").symlink_to(folder / "nothing")
    return folder / "x"


def endless(folder):
    (folder / "x").symlink_to(folder / "x")
    return folder / "x"


def device(name):
    return lambda folder: Path(f"/dev/{name}")


PLACES = {
    "a pipe": (fifo, "pipe"),
    "a folder": (folder, "it is a folder"),
    "a link to nothing": (dangling, "links to .*nothing, which is missing"),
    "a link to itself": (endless, "There is no run file"),
    "a name too long": (lambda folder: folder / ("x" * 300), "name too long|There is no run file"),
    "below a file": (lambda folder: Path(__file__) / "x", "no run file|does not exist"),
    "/dev/null": (device("null"), "device"),
    "/dev/zero": (device("zero"), "device"),
    "/dev/full": (device("full"), "device"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of Unix")
@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_is_refused_at_once(tmp_path, place, write):
    make, says = PLACES[place]
    path = make(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((FileNotFoundError, Unwritable), match=says):
        Run(path, write=write)
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_to_a_run_file_is_that_run_file(path, tmp_path):
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.run"
    link.symlink_to(path)
    with Run(link) as run:
        run.add(step=1, readings=[READING])
    assert values(link) == values(path) == [(0, 1.5), (1, 1.5)]
    assert sorted(tmp_path.rglob("*")) == sorted([path, link.parent, link])


def test_a_pipe_for_a_log_is_refused_at_once(path):
    os.mkfifo(f"{path}-wal")
    with pytest.raises(ValueError, match="no log that can be read"):
        Run(path, write=False)


def test_what_another_run_left_is_not_taken_for_the_log_of_a_new_one(path):
    log = Path(f"{path}-wal")
    path.rename(path.with_name("old"))
    log.write_bytes(b"left")
    with pytest.raises(Unwritable, match="would be taken for its log"):
        Run(path)
    assert sorted(path.parent.iterdir()) == [log, path.with_name("old")]


def test_between_two_steps_there_is_one_file(path):
    with Run(path) as run:
        for step in (1, 2):
            run.add(step=step, readings=[READING])
            assert list(path.parent.iterdir()) == [path]


def test_a_file_without_its_log_is_not_appended_to(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    assert values(path) == [(0, 1.5)]
    with pytest.raises(Unwritable, match=r"write-ahead log off.*journal_mode = WAL"):
        Run(path)


def test_a_locked_file_is_read_and_for_writing_waited_for(path, monkeypatch):
    monkeypatch.setattr(appends, "PATIENCE", 0.05)
    with Run(path) as run, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert values(path) == [(0, 1.5)]
        with pytest.raises(Unwritable, match=r"another process has kept the file locked"):
            run.add(step=1, readings=[READING])
        other.execute("ROLLBACK")
        run.add(step=1, readings=[READING])
    assert values(path) == [(0, 1.5), (1, 1.5)]


def test_a_file_that_vanished_or_was_damaged_meanwhile_is_not_appended_to(path):
    with Run(path) as run:
        data = path.read_bytes()
        path.write_bytes(data[:5000])
        with pytest.raises(ValueError, match="is damaged"):
            run.add(step=1, readings=[READING])
        path.unlink()
        with pytest.raises(FileNotFoundError, match="There is no run file"):
            run.add(step=1, readings=[READING])
    assert list(path.parent.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="rights of Unix")
@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555), (0, 0o777)])
def test_a_file_that_may_not_be_written_is_a_sentence_and_left_alone(path, file, folder):
    def work(report):
        if os.geteuid() == 0:  # to whom everything is allowed
            os.setuid(65534)
        for write in (True, False):
            try:
                Run(path, write=write).close()
            except (Unwritable, OSError) as error:
                report("may not be written" in str(error) or "cannot be read: Perm" in str(error))
            else:
                report(2)

    with tempfile.TemporaryDirectory() as home:  # the folders of pytest let nobody else in
        path = Path(shutil.copy(path, home))
        path.chmod(file)
        path.parent.chmod(folder)
        number, read = child(work)
        os.waitpid(number, 0)
        assert list(path.parent.iterdir()) == [path]
        path.parent.chmod(0o777)
    assert reported(read) == ([1, 1] if not file else [1, 2])


def test_a_run_that_was_closed_says_so(path):
    run = Run(path)
    run.close()
    with pytest.raises(ValueError, match="was closed"):
        run.add(step=1, readings=[READING])
    with pytest.raises(ValueError, match="was closed"):
        run.steps()


@pytest.mark.parametrize("large", [True, False])
def test_a_file_too_large_for_memory_is_read_where_it_is(path, monkeypatch, large):
    if large:
        monkeypatch.setattr(images, "LARGEST", 10_000)
    with Run(path) as run:
        run.add(step=1, readings=[READING])
        assert run.steps() == (0, 1)
    assert values(path) == [(0, 1.5), (1, 1.5)]
    data = bytearray(path.read_bytes())
    at = data.index(b"stable rank")
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        values(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_large_file_that_is_written_while_it_is_read_is_to_be_read_again(path, monkeypatch):
    monkeypatch.setattr(images, "LARGEST", 10_000)
    with Run(path) as run:
        run.add(step=1, readings=[READING] * 2000)
        with Run(path, write=False) as reader:
            found = reader.readings()
            assert next(found).step == 0
            run.add(step=2, readings=[READING])
            with pytest.raises(OSError, match=r"written while it was read.*read it again"):
                list(found)
            assert len(list(reader.readings())) == 2002


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_an_export_never_replaces_the_run_file(path, end):
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is the run file itself"):
        export(path, to="csv", path=f"{path}{end}")
    assert path.read_bytes() == before


def test_an_export_never_replaces_a_device(path):
    with pytest.raises(ValueError, match="must be a file or nothing"):
        export(path, to="csv", path="/dev/null")


@pytest.mark.parametrize("step", [2**63, -(2**70)])
def test_a_step_out_of_range_is_refused_in_words(path, step):
    with Run(path) as run, pytest.raises(Unwritable, match=r"cannot be stored.*as it was before"):
        run.add(step=step, readings=[READING])
    assert values(path) == [(0, 1.5)]


def test_text_that_is_no_text_is_refused_in_words_and_nothing_of_the_step_stays(path):
    with Run(path) as run, pytest.raises(Unwritable, match="cannot be stored"):
        run.add(step=1, about={"model": "mlp"}, views=["\ud800"])
    assert values(path) == [(0, 1.5)]

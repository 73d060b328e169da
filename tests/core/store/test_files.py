"""Run files as SQLite opens them: what is none is refused, readers change nothing."""

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from sigmascope.core.store import VERSION, Damaged, Run, Unwritable, files, is_run, since
from sigmascope.core.store.files import create, snapshot, sound
from tests.core.store.one_reading import READING, values
from tests.core.store.test_kills import child, reported


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


def foreign_sqlite(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE photos (name TEXT)")


def newer_run(path):
    Run(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
        db.execute("PRAGMA journal_mode = DELETE")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b""), "not a sigmascope run file: it is empty"),
        (lambda path: path.write_text("step,site\n" * 50), "it is not SQLite"),
        (foreign_sqlite, "an SQLite file of another program"),
        (newer_run, f"newer sigmascope .run format {VERSION + 1}"),
    ],
)
@pytest.mark.parametrize("write", [True, False])
def test_foreign_files_are_refused_and_left_alone(tmp_path, make, says, write):
    path = tmp_path / "foreign.run"
    make(path)
    before = path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())
    with pytest.raises(ValueError, match=says):
        Run(path, write=write)
    assert before == (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))


def test_a_missing_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        Run(tmp_path / "nowhere" / "a.run")
    with pytest.raises(FileNotFoundError, match="There is no run file"):
        Run(tmp_path / "a.run", write=False)
    assert not list(tmp_path.iterdir())


def test_whatever_goes_wrong_inside_is_damage_in_its_own_words(tmp_path):
    path = tmp_path / "my run"
    with (
        pytest.raises(Damaged, match="my run is damaged: it is odd") as found,
        sound(path, "it is odd"),
    ):
        raise KeyError
    assert (found.value.path, found.value.what) == (path, "it is odd (KeyError)")
    assert f"export '{path}' --to csv" in str(found.value)  # to paste, with a space in the name
    with pytest.raises(Damaged, match="a b c") as found, sound(path, "it is odd"):
        raise ValueError("a\n b  c" + 300 * "x")
    assert len(found.value.what) == len("it is odd ()") + 200
    with pytest.raises(Damaged, match="as it was said"), sound(path, "again"):
        raise Damaged(path, "as it was said")
    with pytest.raises(OSError, match="disk"), sound(path, "it is odd"):
        raise OSError("disk")


def test_between_two_steps_there_is_one_file(path):
    with Run(path) as run:
        for step in (1, 2):
            run.add(step=step, readings=[READING])
            assert list(path.parent.iterdir()) == [path]


def test_a_log_that_another_program_turned_off_is_turned_on_again(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    assert values(path) == [(0, 1.5)]
    with Run(path) as run:
        run.add(step=1, readings=[READING])
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert values(path) == [(0, 1.5), (1, 1.5)]


def test_a_locked_file_is_read_and_for_writing_waited_for(path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with Run(path) as run, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert values(path) == [(0, 1.5)]
        with pytest.raises(Unwritable, match=r"another process keeps the file locked"):
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


@pytest.mark.parametrize("more", [{"readings": [READING]}, {"views": ["weights"]}])
@pytest.mark.parametrize("step", [2**63, -(2**70)])
def test_a_step_out_of_range_is_refused_in_words_and_nothing_of_it_stays(path, step, more):
    with Run(path) as run, pytest.raises(Unwritable, match=r"cannot be stored.*as it was before"):
        run.add(step=step, about={"model": "mlp"}, **more)
    assert values(path) == [(0, 1.5)]


def test_what_another_run_left_is_not_taken_for_the_log_of_a_new_one(path):
    log = Path(f"{path}-wal")
    path.rename(path.with_name("old"))
    log.write_bytes(b"left")
    with pytest.raises(Unwritable, match="would be taken for its log"):
        Run(path)
    assert sorted(path.parent.iterdir()) == [log, path.with_name("old")]


def test_an_empty_run_file_is_whole_and_alone(tmp_path):
    for name in ("a.run", "b.run"):
        create(tmp_path / name)
        with Run(tmp_path / name, write=False) as run:
            assert run.steps() == ()
        assert (tmp_path / name).read_bytes()[18:20] == b"\2\2"  # with a write-ahead log
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_there_is_not_replaced(tmp_path):
    path = tmp_path / "a.run"
    create(path)
    with Run(path) as run:
        run.add(step=0, readings=[READING])
    first = path.read_bytes()
    create(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_folder_it_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"make it with `mkdir -p {tmp_path}/no`"):
        create(tmp_path / "no" / "a.run")
    assert not list(tmp_path.iterdir())


def test_the_journal_of_another_file_would_be_taken_for_its_own(tmp_path):
    (tmp_path / "a.run-journal").touch()
    with pytest.raises(Unwritable, match=r"a\.run-journal of another file of that name"):
        create(tmp_path / "a.run")
    assert [p.name for p in tmp_path.iterdir()] == ["a.run-journal"]


def test_a_run_file_is_told_from_others(path, tmp_path):
    (tmp_path / "b").write_bytes(b"x" * 200)
    assert is_run(path)
    assert not any(map(is_run, (tmp_path / "b", tmp_path / "none", tmp_path, "/dev/null")))


def test_first_bytes_that_are_wrong_are_damage(path):
    data = path.read_bytes()
    for at, byte in ((0, b"s"), (19, b"\7"), (63, b"\0")):
        path.write_bytes(data[:at] + byte + data[at + 1 :])
        with pytest.raises(Damaged):
            Run(path, write=False)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of Unix")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_log_is_refused_at_once(path, make):
    make(f"{path}-wal")
    with pytest.raises(ValueError, match=r"a\.run-wal is no log of"):
        Run(path, write=False)


def everything(folder):
    return {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.iterdir()}


def test_readers_of_a_closed_run_change_nothing_and_leave_nothing(path):
    before = everything(path.parent)
    for _ in range(2):
        assert values(path) == [(0, 1.5)]
        since(path)
    with snapshot(path) as one, snapshot(path) as other:
        for found in (one, other):
            assert found.file.execute("SELECT step FROM steps").fetchall() == [(0,)]
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                found.file.execute("DELETE FROM steps")
    assert everything(path.parent) == before


def test_a_reader_keeps_its_moment_while_steps_are_added(path):
    with Run(path) as run:
        run.add(step=1, readings=[READING] * 3)
        found = run.readings()
        assert next(found).step == 0
        for step in (2, 3):
            run.add(step=step, readings=[READING])
        assert [row.step for row in found] == [1, 1, 1]
        assert run.steps() == (0, 1, 2, 3)
        run.add(step=4, readings=[READING])
    assert list(path.parent.iterdir()) == [path]


def test_a_log_that_a_killed_writer_left_is_read_and_left_alone(path):
    def work(report):
        with files.appending(path) as file:
            file.execute("UPDATE steps SET time = 'then'")
            file.execute("COMMIT")
            os.kill(os.getpid(), 9)

    number, _ = child(work)
    os.waitpid(number, 0)
    log = Path(f"{path}-wal")
    before = path.read_bytes(), log.read_bytes()
    assert before[1]
    with snapshot(path) as found:
        assert found.file.execute("SELECT time FROM steps").fetchall() == [("then",)]
    assert (path.read_bytes(), log.read_bytes()) == before


def test_a_program_that_keeps_everybody_out_is_named(path, monkeypatch):
    monkeypatch.setattr(files, "READER", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ValueError, match="another process keeps the file locked; wait"):
            values(path)
    assert values(path) == [(0, 1.5)]


@pytest.mark.skipif(sys.platform == "win32", reason="rights of Unix")
@pytest.mark.parametrize("left", [("",), ("", "-wal", "-shm"), ("", "-wal")])
def test_a_folder_that_takes_no_files_is_read_as_far_as_sqlite_can(path, left):
    """Alone, and with the log of a writer; without the index of that log it is said what to do."""

    def work(report):
        if os.geteuid() == 0:  # to whom everything is allowed
            os.setuid(65534)
        try:
            report(len(values(Path(home) / "a.run")))
        except ValueError as error:
            report(9 if "copy the file and its log elsewhere" in str(error) else 8)

    with tempfile.TemporaryDirectory() as home, Run(path) as run:
        reader = run.readings()
        next(reader)  # keeps the log
        run.add(step=1, readings=[READING])
        for end in left:
            shutil.copy(f"{path}{end}", home)
        reader.close()
        for place in (*Path(home).iterdir(), Path(home)):
            place.chmod(0o555)
        names = sorted(Path(home).iterdir())
        number, read = child(work)
        os.waitpid(number, 0)
        assert sorted(Path(home).iterdir()) == names
        Path(home).chmod(0o777)
    assert reported(read) == [{1: 1, 3: 2, 2: 9}[len(left)]]


def test_a_file_that_cannot_be_held_still_must_stand_still(path, monkeypatch):
    monkeypatch.setattr(files, "_unwritable", lambda real: real)
    with pytest.raises(ValueError, match="was written while it was read"), snapshot(path):
        os.utime(path, (0, 0))
    assert values(path) == [(0, 1.5)]

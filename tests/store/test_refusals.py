"""What is no run file is refused in words, and left alone."""

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from sigmascope.gate import Refusal
from sigmascope.store import VERSION, Damaged, Run, Unwritable
from sigmascope.store.refusals import require_marks, sound
from tests.store.test_kills import child, reported


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
        (newer_run, "newer sigmascope .run format 3"),
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


def test_a_folder_is_no_run_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no run file"):
        Run(tmp_path)


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


def test_marks_are_read_from_the_first_bytes_alone(tmp_path):
    Run(tmp_path / "a.run").close()
    header = (tmp_path / "a.run").read_bytes()[:100]
    assert require_marks(tmp_path, header) == VERSION
    for at, byte in ((0, b"s"), (63, b"\0"), (18, b"\1")):
        with pytest.raises(Damaged, match="first bytes are not those of a run file"):
            require_marks(tmp_path, header[:at] + byte + header[at + 1 :])
    with pytest.raises(Refusal, match="not a sigmascope run file"):
        require_marks(tmp_path, header[:99])

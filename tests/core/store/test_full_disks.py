"""A disk that is full, a limit of size, a folder that takes nothing: a sentence, nothing lost."""

import os
import resource
import signal
import sqlite3
import sys

import pytest

from sigmascope.core.store import Run, Unwritable, files
from tests.core.store.test_kills import child, fill, reported, require_whole_steps

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")


@pytest.fixture
def path(tmp_path):
    fill(tmp_path / "a.run", range(2))
    return tmp_path / "a.run"


def refused(path, step):
    """What is said when a step cannot be appended; nothing if it can."""
    try:
        fill(path, [step])
    except Unwritable as error:
        return str(error)
    return ""


def test_a_full_disk_is_a_sentence_and_loses_nothing(path, monkeypatch):
    plain = files._connect

    def small(*words):
        file = plain(*words)
        (pages,) = file.execute("PRAGMA page_count").fetchone()
        file.execute(f"PRAGMA max_page_count = {pages}")
        return file

    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_connect", small)
        said = refused(path, 2)
    assert "the disk is full" in said
    assert "make room, and append it again" in said
    assert "as it was before this step" in said
    assert "\n" not in said
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    require_whole_steps(path, [0, 1])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0, 1.05, 1.3])
def test_a_limit_of_size_is_a_sentence_and_loses_nothing(path, share):
    """Wherever the writing stops: in the log, or in folding the log into the file."""
    limit = int(path.stat().st_size * share)

    def work(report):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        said = refused(path, 2)
        report(2 if not said else 0 if "as it was before" in said and "\n" not in said else 1)

    number, read = child(work)
    _, status = os.waitpid(number, 0)
    with os.fdopen(read, "rb") as pipe:
        ((answer,),) = [pipe.read()]
    assert status == 0
    assert answer != 1, "a sentence was expected"
    require_whole_steps(path, [0, 1, 2] if answer == 2 else [0, 1])


def test_a_run_is_read_where_the_disk_has_no_room(path):
    """Then SQLite can put no log beside the file, which it does for every reader."""

    def work(report):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with Run(path, write=False) as run:
            for step in run.steps():
                report(step)

    before = path.read_bytes()
    number, read = child(work)
    os.waitpid(number, 0)
    assert reported(read) == [0, 1]
    assert path.read_bytes() == before
    assert all(not file.stat().st_size for file in path.parent.iterdir() if file != path)
    require_whole_steps(path, [0, 1])


@pytest.mark.parametrize("limit", [0, 1000, 20_000])
def test_a_run_file_for_which_there_is_no_room_is_not_begun(tmp_path, limit):
    def work(report):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        said = refused(tmp_path / "a.run", 0)
        report("No run file can be made" in said)

    number, read = child(work)
    os.waitpid(number, 0)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"\1"
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_links_will_do(tmp_path, monkeypatch):
    def no(*args, **kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no)
    fill(tmp_path / "a.run", range(2))
    require_whole_steps(tmp_path / "a.run", [0, 1])


def error(code):
    failure = sqlite3.OperationalError("as SQLite says it")
    failure.sqlite_errorcode = code
    return failure


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, "the disk is full or fails"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "may not be written"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_PROTOCOL, "see what SQLite says"),
    ],
)
def test_whatever_sqlite_says_is_a_sentence(path, monkeypatch, code, says):
    plain = files._connect

    def broken(real, mode, patience):
        if patience == files.PATIENCE:  # a writer
            raise error(code)
        return plain(real, mode, patience)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_connect", broken)
        assert says in refused(path, 2)
    require_whole_steps(path, [0, 1])

"""A step is appended whole or not at all, and what hinders it is a sentence."""

import sqlite3
from contextlib import closing

import pytest

from sigmascope.store import Run, Unwritable, appends
from tests.store.one_reading import READING, values


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


@pytest.mark.parametrize("step", [2**63, -(2**70)])
def test_a_step_out_of_range_is_refused_in_words(path, step):
    with Run(path) as run, pytest.raises(Unwritable, match=r"cannot be stored.*as it was before"):
        run.add(step=step, readings=[READING])
    assert values(path) == [(0, 1.5)]


def test_text_that_is_no_text_is_refused_in_words_and_nothing_of_the_step_stays(path):
    with Run(path) as run, pytest.raises(Unwritable, match="cannot be stored"):
        run.add(step=1, about={"model": "mlp"}, views=["\ud800"])
    assert values(path) == [(0, 1.5)]

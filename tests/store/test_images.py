"""Pictures of run files: of the bytes at one instant, in memory or where they are."""

import itertools
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from sigmascope.gate import Refusal
from sigmascope.store import Run, images
from tests.store.one_reading import READING, values


def test_a_pipe_for_a_log_is_refused_at_once(path):
    os.mkfifo(f"{path}-wal")
    with pytest.raises(ValueError, match="no log that can be read"):
        Run(path, write=False)


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


def test_a_file_that_never_stands_still_is_given_up(path, monkeypatch):
    looks = itertools.count()
    monkeypatch.setattr(images, "signature", lambda _: ((next(looks), 0, 0, 0), None))
    monkeypatch.setattr(images, "_TRIES", 3)
    monkeypatch.setattr(images, "_PAUSE", 0.0)
    with pytest.raises(Refusal, match="changes faster than it can be read"):
        images.take(path, path)
    assert next(looks) == 6  # before and after each reading


def test_a_picture_knows_its_pages_and_forgets_its_content(path):
    picture = images.take(path, path)
    size = path.stat().st_size
    assert (picture.size, picture.log, picture.version) == (size, b"", 2)
    assert size % picture.page == 0
    assert len(picture.forgotten().main) == 100
    assert picture.forgotten().page == picture.page
    largest = replace(picture, main=picture.main[:16] + b"\0\1" + picture.main[18:])
    assert largest.page == 65536
    assert images.signature(path.with_name("none")) == (None, None)


def test_a_change_shows_from_outside_once_the_clock_has_moved_on(path):
    picture = images.take(path, path)
    written = picture.seen[0][3]
    assert not replace(picture, when=written + 10**9).settled
    assert replace(picture, when=written + 10**9 + 1).settled


def test_what_was_taken_cannot_be_written(path):
    with closing(images.opened(images.take(path, path))) as file:
        assert file.execute("SELECT count(*) FROM readings").fetchone() == (1,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            file.execute("DELETE FROM seals")

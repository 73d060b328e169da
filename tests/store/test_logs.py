"""SQLite's write-ahead log, read as bytes, against what SQLite itself makes of it."""

import shutil
import sqlite3
import struct
from contextlib import closing

import pytest

from sigmascope.store import logs

PAGE = 512
FRAME = 24 + PAGE


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file and its log of three transactions, each with the text that SQLite reads after it."""
    path = tmp_path_factory.mktemp("log") / "a"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(f"PRAGMA page_size = {PAGE}")
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA wal_autocheckpoint = 0")
        file.execute("CREATE TABLE t (x)")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        main, ends = path.read_bytes(), []
        for x in "abc":
            file.execute("INSERT INTO t VALUES (?)", (x * 1500,))  # some pages
            ends.append(path.with_name("a-wal").stat().st_size)
        return main, path.with_name("a-wal").read_bytes(), ends


def overlaid(main, log):
    """The table of a file with its log folded in."""
    found = logs.read(log, PAGE)
    image = bytearray(main.ljust(found.size * PAGE, b"\0"))
    for number, at in found.pages.items():
        image[(number - 1) * PAGE : number * PAGE] = log[at : at + PAGE]
    image[18:20] = b"\1\1"
    with closing(sqlite3.connect(":memory:")) as file:
        file.deserialize(bytes(image))
        return [x[0] for (x,) in file.execute("SELECT x FROM t")]


def by_sqlite(main, log, folder):
    (folder / "b").write_bytes(main)
    (folder / "b-wal").write_bytes(log)
    with closing(sqlite3.connect(folder / "b")) as file:
        return [x[0] for (x,) in file.execute("SELECT x FROM t")]


def test_the_newest_page_of_every_commit_counts(written, tmp_path):
    main, log, ends = written
    for count, end in enumerate(ends, start=1):
        assert overlaid(main, log[:end]) == by_sqlite(main, log[:end], tmp_path) == [*"abc"[:count]]
        assert not logs.read(log[:end], PAGE).broken


def test_a_transaction_that_was_never_committed_is_no_damage(written):
    main, log, ends = written
    for end in (ends[2] - FRAME, ends[2] - FRAME - 1, ends[1] + FRAME, ends[1] + 7):
        found = logs.read(log[:end], PAGE)
        assert (found, overlaid(main, log[:end])) == (logs.read(log[: ends[1]], PAGE), ["a", "b"])


@pytest.mark.parametrize("log", [b"", bytes(10), bytes(4000)])
def test_a_writer_that_was_stopped_before_its_first_frame_left_nothing(log):
    assert logs.read(log, PAGE) == logs.Log()


def test_a_frame_that_is_wrong_is_named_with_its_place(written):
    _, log, ends = written
    wrong = bytearray(log)
    wrong[32 + FRAME + 100] ^= 1  # in the page of the second frame
    found = logs.read(bytes(wrong), PAGE)
    assert found.broken == f"its log breaks off after {32 + FRAME} of {ends[2]} bytes"
    assert found.size == 0  # the first transaction has more frames than one


def test_first_bytes_that_are_wrong_and_other_pages_are_named(written):
    _, log, _ = written
    for at in (0, 8, 17, 25):
        wrong = bytearray(log)
        wrong[at] ^= 4
        assert logs.read(bytes(wrong), PAGE).broken == "the first bytes of its log are wrong"
    assert logs.read(log, 1024).broken == "its log is of pages of 512 bytes, and the file of 1024"


def test_frames_of_an_older_log_are_what_was_written_over(tmp_path):
    """SQLite begins a log anew at its start, and leaves what lies behind."""
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as file:
        file.execute(f"PRAGMA page_size = {PAGE}")
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE t (x)")
        file.execute("INSERT INTO t VALUES (?)", ("a" * 9000,))
        file.execute("PRAGMA wal_checkpoint(RESTART)")
        file.execute("INSERT INTO t VALUES ('b')")
        for end in ("", "-wal"):
            shutil.copy(f"{tmp_path}/a{end}", f"{tmp_path}/c{end}")
    main, log = ((tmp_path / f"c{end}").read_bytes() for end in ("", "-wal"))
    assert len(log) > 32 + 4 * FRAME
    assert not logs.read(log, PAGE).broken
    assert overlaid(main, log) == ["a", "b"]
    # of another run altogether, what lies behind is damage
    strange = bytearray(log)
    for at in range(32, len(log) - FRAME + 1, FRAME):
        if strange[at + 8 : at + 16] != log[16:24]:
            struct.pack_into(">I", strange, at + 8, 0x12345678)
    assert "breaks off" in logs.read(bytes(strange), PAGE).broken


def plain_sums(data, order):
    """Section 4.2 of the file format, word by word."""
    s = t = 0
    for x, y in struct.iter_unpack(f"{order}2I", data):
        s = (s + x + t) % 2**32
        t = (t + y + s) % 2**32
    return s, t


@pytest.mark.parametrize("magic", [0x377F0682, 0x377F0683])
def test_either_order_of_bytes_is_read(magic):
    """Checksums are of words in the order that the magic number tells, worked out word by word."""
    order = ">" if magic & 1 else "<"
    head = struct.pack(">6I", magic, 3007000, PAGE, 0, 7, 8)
    head += struct.pack(">2I", *plain_sums(head, order))
    page = bytes(range(256)) * 2
    frame = struct.pack(">4I", 2, 5, 7, 8)
    both = plain_sums(head[:24] + frame[:8] + page, order)
    found = logs.read(head + frame + struct.pack(">2I", *both) + page, PAGE)
    assert (dict(found.pages), found.size, found.broken) == ({2: 32 + 24}, 5, "")

import struct

import pytest

from sigmascope.gate import Refusal
from sigmascope.sources.stored.cursors import BLOCK, Cursor


def cursor(folder, data):
    (folder / "a").write_bytes(data)
    return Cursor(str(folder / "a"))


def test_values_come_one_after_another(tmp_path):
    data = struct.pack("<IQ3sd", 7, 3, b"abc", 0.5) + b"end"
    at = cursor(tmp_path, data)
    assert (at.whole("I"), at.text(), at.values("d"), at.take(3)) == (7, "abc", (0.5,), b"end")


def test_blocks_are_joined(tmp_path):
    at = cursor(tmp_path, b"".join(struct.pack("<I", n) for n in range(BLOCK)))
    assert at.take(2) == b"\0\0"
    here = at.at
    assert at.take(2 * BLOCK) == (tmp_path / "a").read_bytes()[here : here + 2 * BLOCK]
    at.skip(BLOCK)
    here = at.at
    assert at.take(4) == (tmp_path / "a").read_bytes()[here : here + 4]


def test_text_that_is_none_is_written_out(tmp_path):
    assert cursor(tmp_path, struct.pack("<Q", 2) + b"\xffa").text() == "\\xffa"


def test_the_end_of_the_file_and_of_headers_is_the_end(tmp_path, monkeypatch):
    at = cursor(tmp_path, bytes(64))
    for step in (at.take, at.skip):
        with pytest.raises(Refusal, match="declares 65 bytes at byte 0"):
            step(65)
    monkeypatch.setattr("sigmascope.sources.stored.cursors.LONGEST", 10)
    with pytest.raises(Refusal, match="headers at most 10"):
        at.take(11)

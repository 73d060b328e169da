"""Looks as lines of CSV."""

import csv
import os

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.integrations.tables import COLUMNS, CSV, HEADER
from tests.integrations.looks import BEGINS, ENDS, READINGS, look, reading


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_reading_is_a_line_and_an_alarm_is_two(tmp_path):
    sink = CSV(tmp_path / "a.csv")
    assert not sink.path.exists()  # of several ranks, the one that writes makes it
    sink.write(BEGINS)
    assert len(rows(sink.path)) == len(READINGS) + 1  # before it is closed
    sink.write(ENDS)
    sink.close()
    found = rows(sink.path)
    assert len(found) == 2 * (len(READINGS) + 1)
    assert tuple(found[0]) == COLUMNS
    for row, r in zip(found, READINGS, strict=False):
        assert (row["site"], row["quantity"], row["form"]) == (r.site, r.quantity, r.form)
        assert [float(row[c]) for c in ("value", "low", "high")] == [r.estimate.value] * 3
        assert (row["step"], row["how"], row["risk"]) == ("3", "exact", "0.0")
    told = [row for row in found if row["quantity"] == "alarm"]
    assert [(r["step"], r["form"], r["value"]) for r in told] == [
        ("3", "rank-collapse", "1.0"),
        ("9", "rank-collapse", "0.0"),
    ]
    assert told[0]["how"] == "rank-collapse at blocks.3."


def test_a_line_holds_no_end_of_line_but_its_own(tmp_path):
    with_end = look(1, readings=(reading("a\nb\r\n", "loss", 1.0),))
    sink = CSV(tmp_path / "a.csv")
    sink.write(with_end)
    sink.close()
    assert len(sink.path.read_text().splitlines()) == 2


def test_it_goes_on_where_it_was_and_takes_a_cut_line_off(tmp_path):
    sink = CSV(tmp_path / "a.csv")
    sink.write(look(1))
    whole = sink.path.read_bytes()
    sink.close()
    sink.path.write_bytes(whole + b"2,block")
    sink.write(look(2))  # one that was closed opens again
    sink.close()
    assert sink.path.read_bytes().startswith(whole + b"2,(loss),")
    assert [int(r["step"]) for r in rows(sink.path)] == [1] * len(READINGS) + [2] * len(READINGS)
    sink.path.write_bytes(whole + b"x" * 200_000)  # longer than what is looked at in one piece
    CSV(sink.path).write(look(2))
    assert len(rows(sink.path)) == 2 * len(READINGS)


def test_a_file_with_another_first_line_is_refused_and_left(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n1,2\n")
    with pytest.raises(Refusal, match="Move it away, or name another file"):
        CSV(path)
    assert path.read_text() == "step,loss\n1,2\n"
    with pytest.raises(Refusal, match="mkdir -p"):
        CSV(tmp_path / "none" / "a.csv")
    path.write_text("")
    CSV(path).write(look(1))
    assert path.read_text().startswith(HEADER)


def test_what_a_full_disk_cuts_off_leaves_whole_lines(tmp_path, monkeypatch):
    sink = CSV(tmp_path / "a.csv")
    sink.write(look(1))
    before, write = sink.path.read_bytes(), os.write
    with monkeypatch.context() as patched:

        def short(file, content):
            if len(content) < 100:
                raise OSError(28, "No space left on device")
            return write(file, content[:-50])

        patched.setattr(os, "write", short)
        with pytest.raises(OSError, match="No space"):
            sink.write(look(2))
    assert sink.path.read_bytes() == before
    sink.write(look(3))
    assert {r["step"] for r in rows(sink.path)} == {"1", "3"}

"""Rows are kept as they come, and the file knows what made it."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from sigmascope.core.guard import Refusal, RowFile

RECIPE = {"steps": 3, "rate": 0.1, "what": ["a", 1]}
ROWS = [{"n": i, "value": i / 3, "far": float("inf"), "words": "ä\n"} for i in range(4)]


def opened(path, **changed):
    return RowFile(path, kind="sweep", recipe=RECIPE | changed)


@pytest.fixture
def file(tmp_path):
    with opened(tmp_path / "rows.jsonl") as rows:
        for row in ROWS:
            rows.add(row)
    return tmp_path / "rows.jsonl"


def test_rows_come_back(file):
    with opened(file) as rows:
        assert rows.rows == ROWS
        rows.add({"n": 9})
    with opened(file) as rows:
        assert [row["n"] for row in rows.rows] == [0, 1, 2, 3, 9]


def test_every_line_is_json(file):
    head, *rows = map(json.loads, file.read_text().splitlines())
    assert head["recipe"] == RECIPE
    assert [row["value"] for row in rows] == [row["value"] for row in ROWS]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"steps": 4}, "steps is 3 there and 4 here"),
        ({"more": 1}, "more is null there and 1 here"),
        ({"what": "\x1b[31m"}, r"what is \[\"a\", 1\] there"),
    ],
)
def test_another_recipe_is_refused_by_what_differs(file, changed, says):
    before = file.read_bytes()
    with pytest.raises(Refusal, match=says):
        opened(file, **changed)
    assert file.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_cut_line_is_taken_off_and_nothing_else(file, cut):
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with opened(file) as rows:
        assert rows.rows == ROWS[:3]
        rows.add(ROWS[3])
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "content", [b"my notes, without an end", b"a,b\n1,2\n3,4", b'{"sigmascope": 1}', b"\xff\x00\n1"]
)
def test_a_file_that_is_not_ours_is_never_touched(tmp_path, content):
    (tmp_path / "notes").write_bytes(content)
    with pytest.raises(Refusal):
        opened(tmp_path / "notes")
    assert (tmp_path / "notes").read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


def test_rows_of_another_kind_are_refused(file):
    with pytest.raises(Refusal, match="no file of this kind"):
        RowFile(file, kind="figure", recipe=RECIPE)


def test_any_flipped_byte_is_noticed_or_harmless(file):
    """Wherever a byte changes, the rows are those that were written, fewer at the end, or none."""
    whole = file.read_bytes()
    rng = random.Random(0)
    for _ in range(300):
        at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        damaged = file.read_bytes()
        try:
            with opened(file) as rows:
                assert rows.rows in (ROWS, ROWS[:3])
        except Refusal:
            assert file.read_bytes() == damaged


def test_a_damaged_line_is_named(file):
    lines = file.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace("0.333", "0.444")
    file.write_text("".join(lines))
    with pytest.raises(Refusal, match="damaged in line 3"):
        opened(file)


def test_two_writers_take_turns(file):
    with opened(file), pytest.raises(Refusal, match="Another process is adding rows"):
        opened(file)
    opened(file).__exit__(None, None, None)


def test_a_full_disk_takes_no_half_row(file, monkeypatch):
    whole = file.read_bytes()
    with opened(file) as rows:
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
            with pytest.raises(Refusal, match=r"the disk is full.*make room"):
                rows.add({"n": 9})
        assert file.read_bytes() == whole
        rows.add({"n": 10})
    with opened(file) as rows:
        assert rows.rows == [*ROWS, {"n": 10}]


KILLED = """
import os, signal, sys
from pathlib import Path
from sigmascope.core.guard import RowFile
calls, at = 0, int(sys.argv[2])
def dying(call):
    def made(*a, **k):
        global calls
        calls += 1
        if calls == at:
            if call is write:  # half of the bytes arrive
                write(a[0], a[1][: len(a[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*a, **k)
    return made
write = os.write
for name in ("open", "close", "fsync", "replace", "write", "lseek", "stat"):
    setattr(os, name, dying(getattr(os, name)))
with RowFile(Path(sys.argv[1]), kind="sweep", recipe={"a": 1}) as rows:
    for n in range(len(rows.rows), 5):
        rows.add({"n": n})
"""


def test_killed_at_any_call_no_row_is_lost(tmp_path):
    """Each run is killed a call later and goes on from what the runs before it left."""
    kept, deaths = 0, 0
    for call in [*range(1, 40)]:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / "rows"), str(call)], check=False
        )
        deaths += done.returncode == -signal.SIGKILL
        if (tmp_path / "rows").exists():
            with RowFile(tmp_path / "rows", kind="sweep", recipe={"a": 1}) as rows:
                assert [row["n"] for row in rows.rows] == list(range(len(rows.rows)))
                assert len(rows.rows) >= kept
                kept = len(rows.rows)
        if done.returncode == 0 and kept == 5:
            break
    assert kept == 5
    assert deaths > 5

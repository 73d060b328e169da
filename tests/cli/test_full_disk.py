"""Every door that writes, on a disk without room: one sentence, exit 2, the old files whole."""

import resource
import subprocess
from pathlib import Path

import pytest

from tests.runs_made import made

MODEL = """
from torch import nn
def build(): return nn.Sequential(nn.Linear(6, 90), nn.ReLU(), nn.Linear(90, 3))
"""
ON = ("--data", "gaussian?shape=6", "--samples", "8")
WRITERS = {
    "json": ("profile", "m.py:build", *ON, "--views", "weights", "--json", "out"),
    "html": ("profile", "m.py:build", *ON, "--views", "weights", "--html", "out"),
    "run": ("profile", "m.py:build", *ON, "--views", "weights", "--run", "out"),
    "landscape": ("landscape", "m.py:build", *ON, "--html", "out"),
    "remedy": ("remedy", "m.py:build", *ON, "--apply", "batch-norm", "--save", "out"),
    "compress": ("compress", "m.py:build", *ON, "--tolerance", "0.9", "--save", "out"),
    "picture": ("bottleneck", "m.py:build", *ON, "--picture", "out"),
    "sweep": ("bottleneck", "train", "digits", "--depths", "2", "--steps", "2", "--file", "out"),
    "rows": ("reproduce", "daneshmand2020/fig3b", "--quick", "--out", "out"),
    "export": ("export", "kept.run", "--to", "csv", "--out", "out"),
}
ROOM = {
    "json": 1_000, "picture": 500, "sweep": 150, "export": 1_000, "run": 40_000, "rows": 2_000,
    "remedy": 2_000, "compress": 2_000,
}  # fmt: skip


@pytest.fixture
def run(sigmascope, monkeypatch):
    """A command line beside what it needs, whose files may not grow beyond a size."""
    Path("m.py").write_text(MODEL)
    made(Path("kept.run"), 30)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # the limit would cut it off

    def words(name, room=None, out="out"):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            return sigmascope(*(out if w == "out" else w for w in WRITERS[name]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return words


def contents():
    return {p: p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file()}


def require_one_sentence(code, err):
    assert code == 2, err
    assert err.count("\n") == 2, err
    assert "out" in err
    assert "fault of sigmascope" not in err


@pytest.mark.parametrize("name", WRITERS)
def test_no_room_is_one_sentence_and_nothing_is_lost(run, name):
    before = contents()
    code, _, err = run(name, ROOM.get(name, 10_000))
    require_one_sentence(code, err)
    after = contents()
    assert {p: c for p, c in after.items() if p in before} == before
    left = set(after) - set(before)
    # whole rows may be kept, and what SQLite holds beside a file that is read
    allowed = {"rows.jsonl", "out", "kept.run-shm", "kept.run-wal"}
    assert {p.name for p in left} <= allowed, left


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json", "html", "remedy", "sweep", "run"])
def test_a_small_disk(run, name):
    disk = Path("disk")
    disk.mkdir()
    size = "-osize=16k" if name == "html" else "-osize=8k"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", size, "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small disk; file sizes are limited above instead")
    try:
        (disk / "filled").write_bytes(bytes(4096))
        code, _, err = run(name, out="disk/out")
        if name == "sweep" and code == 0:
            assert (disk / "out").exists()
        else:
            require_one_sentence(code, err)
            assert {p.name for p in disk.iterdir()} <= {"filled", "out"}
        assert (disk / "filled").read_bytes() == bytes(4096)
    finally:
        subprocess.run(["umount", str(disk)], check=True)

"""Every door that writes, on a disk without room: one sentence, exit 2, the old files whole."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs_made import made

MODEL = """
from torch import nn
def build(): return nn.Sequential(nn.Linear(6, 90), nn.ReLU(), nn.Linear(90, 3))
"""
# `exec` below runs the command in a process whose files may not grow beyond this. An old torch
# writes a file of its own where it is imported, before the command has anything to write.
LIMITED = """
import resource, runpy, signal, sys, torch.distributed.nn
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))
sys.argv = ["sigmascope", *sys.argv[1:]]
runpy.run_module("sigmascope", run_name="__main__")
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
QUICK = ("json", "remedy", "sweep", "run")  # a process of several seconds each


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    (folder / "m.py").write_text(MODEL)
    made(folder / "kept.run", 30)
    return folder


def run(folder, words, room):
    code = "import runpy; runpy.run_module('sigmascope', run_name='__main__')"
    if room is not None:
        code = LIMITED.replace("ROOM", str(room))
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path.cwd())},
    )


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def require_one_sentence(done):
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "out" in done.stderr
    assert "fault of sigmascope" not in done.stderr


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in WRITERS]
)
def test_no_room_is_one_sentence_and_nothing_is_lost(home, name):
    before = contents(home)
    done = run(home, WRITERS[name], ROOM.get(name, 10_000))
    require_one_sentence(done)
    after = contents(home)
    assert {p: c for p, c in after.items() if p in before} == before
    left = set(after) - set(before)
    assert all(p.name in ("rows.jsonl", "out") for p in left), left  # whole rows may be kept
    shutil.rmtree(home / "out", ignore_errors=True)
    for path in left:
        path.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json", "html", "remedy", "sweep", "run"])
def test_a_small_disk(home, name):
    disk = home / "disk"
    disk.mkdir()
    size = "-osize=16k" if name == "html" else "-osize=8k"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", size, "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        disk.rmdir()
        pytest.skip("this user may not mount a small disk; file sizes are limited above instead")
    try:
        (disk / "filled").write_bytes(bytes(4096))
        words = tuple("disk/out" if w == "out" else w for w in WRITERS[name])
        done = run(home, words, None)
        if name == "sweep" and done.returncode == 0:
            assert (disk / "out").exists()
        else:
            require_one_sentence(done)
            assert {p.name for p in disk.iterdir()} <= {"filled", "out"}
        assert (disk / "filled").read_bytes() == bytes(4096)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()

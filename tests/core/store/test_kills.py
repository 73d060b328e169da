"""Kill -9 at any moment: the file opens, with whole steps, every step that was reported."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Run, files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
ROWS = 300
READINGS = [
    Reading(f"layer {i}", "stable rank", Estimate.exactly(float(i)), "weights", "matrix")
    for i in range(ROWS)
]


def fill(path, steps, report=lambda step: None):
    with Run(path) as run:
        for step in steps:
            run.add(step=step, readings=READINGS, about={"step": str(step)})
            report(step)


def child(work):
    """A process that does `work(report)` and then ends; its number, and what it reports to."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads, of which we start none
        number = os.fork()
    if number:
        os.close(write)
        return number, read
    try:
        work(lambda step: os.write(write, bytes([step])))
    finally:
        os._exit(0)  # without the clean-up of pytest


def reported(read):
    with os.fdopen(read, "rb") as pipe:
        return list(pipe.read())


def require_whole_steps(path, acknowledged):
    """What a kill may leave; and that one can go on, after which nothing else lies there."""
    if not path.exists():
        assert not acknowledged
        assert left(path.parent) == []
        return
    with Run(path, write=False) as run:
        steps = list(run.steps())
        assert steps == list(range(len(steps)))
        assert steps[: len(acknowledged)] == acknowledged
        assert [r.step for r in run.readings()] == [s for s in steps for _ in range(ROWS)]
        assert [int(w.value) for w in run.about()] == steps
    fill(path, [len(steps)])
    with Run(path, write=False) as run:
        assert list(run.steps()) == [*steps, len(steps)]
    assert left(path.parent) == [path]


def left(folder):
    """All but what a kill leaves of a run file that was not there yet."""
    return [file for file in folder.iterdir() if not file.name.startswith(".run-")]


def killed(path, after):
    """A writer that is killed so many seconds after it began."""
    number, read = child(lambda report: fill(path, range(200), report))
    time.sleep(after)
    os.kill(number, signal.SIGKILL)
    _, status = os.waitpid(number, 0)
    require_whole_steps(path, reported(read))
    return os.WTERMSIG(status) == signal.SIGKILL


def killed_within(path, monkeypatch, kind, count):
    """A writer that kills itself at the `count`-th moment in SQLite; False if it got through."""
    left = [count]

    def tick(*_):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    plain = files._connect

    def connect(*words):
        file = plain(*words)
        if kind == "statement":
            file.set_trace_callback(tick)
        else:
            file.set_progress_handler(tick, 1)
        return file

    with monkeypatch.context() as patch:
        patch.setattr(files, "_connect", connect)
        number, read = child(lambda report: fill(path, range(2), report))
        _, status = os.waitpid(number, 0)
    require_whole_steps(path, reported(read))
    return os.WIFSIGNALED(status)


def times(folder, count, seed):
    rng = random.Random(seed)
    for n in range(count):
        shutil.rmtree(folder / "case", ignore_errors=True)
        (folder / "case").mkdir()
        yield n, rng, folder / "case" / "a.run"


def test_a_writer_killed_at_any_moment_loses_nothing(tmp_path):
    hit = [killed(path, rng.uniform(0, 0.1)) for _, rng, path in times(tmp_path, 4, 0)]
    assert any(hit)


@pytest.mark.parametrize(("kind", "far"), [("statement", 600), ("instruction", 40_000)])
def test_a_writer_killed_within_sqlite_loses_nothing(tmp_path, monkeypatch, kind, far):
    hit = [
        killed_within(path, monkeypatch, kind, rng.randrange(1, far))
        for _, rng, path in times(tmp_path, 4, 1)
    ]
    assert any(hit)


@pytest.mark.slow
def test_sixty_kills_lose_nothing(tmp_path, monkeypatch):
    hit = [killed(path, rng.uniform(0, 0.5)) for _, rng, path in times(tmp_path, 40, 2)]
    for kind, far in (("statement", 600), ("instruction", 40_000)):
        for _, rng, path in times(tmp_path, 40, 3):
            hit.append(killed_within(path, monkeypatch, kind, rng.randrange(1, far)))
    print(sum(hit), "of", len(hit), "killed")
    assert sum(hit) >= 60


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>
static long left = 0;
void arm(long n) { left = n; }
long unarmed(void) { return left; }
static void tick(void) { if (left > 0 && --left == 0) kill(getpid(), SIGKILL); }
#define WRAP(kind, name, args, call) kind name args { \
    tick(); return ((kind (*) args) dlsym(RTLD_NEXT, #name)) call; }
WRAP(ssize_t, write, (int f, const void *b, size_t n), (f, b, n))
WRAP(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
WRAP(ssize_t, pwrite64, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
WRAP(int, fsync, (int f), (f))
WRAP(int, fdatasync, (int f), (f))
WRAP(int, ftruncate, (int f, off_t n), (f, n))
WRAP(int, ftruncate64, (int f, off_t n), (f, n))
WRAP(int, unlink, (const char *p), (p))
WRAP(int, linkat, (int a, const char *p, int b, const char *q, int f), (a, p, b, q, f))
WRAP(int, close, (int f), (f))
"""
DRIVER = """
import ctypes, os, shutil, sys
from pathlib import Path
from tests.core.store import test_kills as kills
shim = ctypes.CDLL(sys.argv[1])
folder, hit, through = Path(sys.argv[2]), 0, 0
for n, _, path in kills.times(folder, 10**6, 0):
    def work(report):
        shim.arm(n + 1)
        kills.fill(path, range(2), lambda step: None)
        shim.arm(0)
    number, read = kills.child(work)
    _, status = os.waitpid(number, 0)
    os.close(read)
    kills.require_whole_steps(path, [])
    if not os.WIFSIGNALED(status):
        break
    hit += 1
print(hit)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_kill_before_every_single_call_that_writes_loses_nothing(tmp_path):
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(shim), str(tmp_path / "runs")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout, "calls, a kill before each")
    assert int(done.stdout) > 60

"""Work is shared among processes, each of one thread, nothing is lost, and nobody stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.integrations.processes import WorkerProcesses


def squared(x):
    return x * x, torch.get_num_threads()


def inverse(x):
    return 1 / x


def sleep(seconds):
    time.sleep(seconds)
    return os.getpid()


def leave(how):
    os.kill(os.getpid(), how)
    time.sleep(0.3)
    return "still here"


def children():
    """Processes of this one that were spawned for work and live."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())], capture_output=True
    )
    lines = found.stdout.decode().splitlines()
    return [w for w in lines if "spawn_main" in w and "Z" not in w.split()[1]]


def test_processes_that_are_hired_are_there_before_the_work_and_until_its_end():
    with WorkerProcesses(2).hired("torch") as crew:
        began = time.monotonic()
        while len(children()) < 2:  # before there is any work
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        pids = {*crew(sleep, [0.5, 0.5]), *crew(sleep, [0.5, 0.5])}
        assert len(pids) == 2
        assert sorted(crew(squared, [-3, 2, -1])) == [(1, 1), (4, 1), (9, 1)]  # of one thread each
        # the interruption of a person is for the one who asked
        assert list(crew(leave, [signal.SIGINT])) == ["still here"]
        with pytest.raises(ZeroDivisionError):  # what fails there fails here
            list(crew(inverse, [1, 0]))
    assert not children()


def test_nothing_to_do_starts_nobody():
    assert list(WorkerProcesses(2)(abs, [])) == []


def test_what_runs_is_not_waited_for_when_nobody_listens():
    began = time.monotonic()
    some = WorkerProcesses(1)(sleep, [0, 60, 60])
    next(some)
    some.close()
    assert time.monotonic() - began < 30
    assert not children()


def test_a_worker_that_is_killed_is_a_refusal():
    with pytest.raises(Refusal, match="take fewer"):
        list(WorkerProcesses(1)(leave, [signal.SIGKILL]))
    assert not children()


ASKS = """
import os, time
from sigmascope.integrations.processes import WorkerProcesses
if __name__ == "__main__":
    of = "__import__('os').getpid()"
    for pid in WorkerProcesses(1)(eval, [of, "__import__('time').sleep(60)"]):
        print(pid, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes as Linux lists them")
def test_workers_end_with_the_process_that_asked_though_it_was_killed(tmp_path):
    (tmp_path / "asks.py").write_text(ASKS)
    asks = subprocess.Popen(
        [sys.executable, "asks.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())}, start_new_session=True,
    )  # fmt: skip
    pid = int(asks.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    asks.kill()
    asks.wait()
    asks.stdout.close()
    until = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()

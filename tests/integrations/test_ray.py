"""Sweeps and scans shared on Ray."""

import importlib
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from sigmascope import theory
from sigmascope.core.guard import Refusal
from sigmascope.scanning import scan
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, stack
from tests.integrations.absent import told_without

# Ray's own: sockets and processes it leaves to the collector
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def ray():
    found = pytest.importorskip("ray")
    found.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    yield found
    found.shutdown()


@pytest.mark.slow
def test_what_is_shared_on_ray_is_the_same_and_lost_work_is_done_again(ray, tmp_path):
    from sigmascope.integrations.ray import RayMap

    generator = torch.Generator().manual_seed(0)

    def dies_once(path):  # within the test, so that Ray sends it and does not look for its module
        if not Path(path).exists():
            Path(path).touch()
            os._exit(1)
        return path

    x, y = bottleneck_task(0, samples=30)
    of = {"depths": [2, 3], "steps": 20}
    weights = {f"h.{i}.fc1.weight": torch.randn(60, 50, generator=generator) for i in range(3)}
    torch.save(weights, tmp_path / "a.pt")
    swept = theory.bottleneck.depth_sweep(
        stack, x, y, **of, mapper=RayMap(), file=tmp_path / "a.jsonl"
    )
    shared = scan(tmp_path / "a.pt", mapper=RayMap(), run=tmp_path / "a.run")
    again = list(RayMap()(dies_once, [str(tmp_path / "x")]))
    assert swept == theory.bottleneck.depth_sweep(stack, x, y, **of)
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1 + 2
    assert shared.readings == scan(tmp_path / "a.pt").readings
    assert again == [str(tmp_path / "x")]


@pytest.mark.slow
def test_a_worker_that_always_dies_is_told_of(ray):
    from sigmascope.integrations.ray import RayMap

    def dies(path):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Refusal, match=r"worker of Ray .*WorkerCrashedError"):
        list(RayMap()(dies, ["x"]))


class WorkerCrashed(Exception):
    """What Ray says in the end."""


LOST = ("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "LocalRayletDiedError")


@pytest.fixture
def likeness(monkeypatch):
    """The module on what stands for Ray: tasks of this process, of which the last is done first."""
    sent, threads = [], []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)

    def stored(value):
        sent.append(value)
        return len(sent) - 1

    def task(run):
        return SimpleNamespace(remote=lambda at, item: lambda: run(sent[at], item))

    likeness = SimpleNamespace(
        exceptions=SimpleNamespace(**dict.fromkeys(LOST, WorkerCrashed)),
        get=lambda one: one(),
        init=lambda *_, **named: started.append(named),
        is_initialized=lambda: bool(started),
        put=stored,
        remote=lambda **_: task,
        wait=lambda waiting: ([waiting[-1]], waiting[:-1]),
    )
    started = []
    name = "sigmascope.integrations.ray"
    with patch.dict(sys.modules, {"ray": likeness}):
        sys.modules.pop(name, None)
        made = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return SimpleNamespace(RayMap=made.RayMap, sent=sent, started=started, threads=threads)


def test_what_is_sent_once_is_run_for_every_item_on_one_thread_and_given_as_it_is_done(likeness):
    said = os.environ.pop("RAY_USAGE_STATS_ENABLED", None)
    found = list(likeness.RayMap()(abs, [-1, -2, -3]))
    assert os.environ.pop("RAY_USAGE_STATS_ENABLED") == "0"
    os.environ.update({} if said is None else {"RAY_USAGE_STATS_ENABLED": said})
    assert found == [3, 2, 1]
    assert likeness.sent == [abs]
    assert likeness.threads == [1, 1, 1]
    assert list(likeness.RayMap()(abs, [-4])) == [4]
    assert likeness.started == [{"log_to_driver": False, "include_dashboard": False}]


def test_sweeps_and_scans_come_to_the_same(likeness, tmp_path):
    x, y = bottleneck_task(0, samples=30)
    torch.save({f"h.{i}.fc1.weight": torch.randn(9, 8) for i in range(3)}, tmp_path / "a.pt")
    of = {"depths": [2, 3], "steps": 2}
    swept = theory.bottleneck.depth_sweep(stack, x, y, **of, mapper=likeness.RayMap())
    assert swept == theory.bottleneck.depth_sweep(stack, x, y, **of)
    shared = scan(tmp_path / "a.pt", mapper=likeness.RayMap())
    assert shared.readings == scan(tmp_path / "a.pt").readings
    assert likeness.sent


def test_work_that_is_lost_again_and_again_is_a_refusal(likeness):
    def lost(_):
        raise WorkerCrashed

    with pytest.raises(Refusal, match=r"worker of Ray .*WorkerCrashed"):
        list(likeness.RayMap()(lost, ["x"]))


def test_without_ray_it_says_how_to_get_it():
    told = told_without("ray", "ray")
    assert "pip install 'sigmascope[ray]'" in told
    assert "processes of this machine" in told

"""Sweeps and scans shared on Ray."""

import os
import signal
from pathlib import Path

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


def test_without_ray_it_says_how_to_get_it():
    told = told_without("ray", "ray")
    assert "pip install 'sigmascope[ray]'" in told
    assert "processes of this machine" in told

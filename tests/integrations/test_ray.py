"""Sweeps shared on Ray."""

import subprocess
import sys

import pytest

from sigmascope import survey
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, stack


@pytest.mark.filterwarnings("ignore")  # Ray's own: sockets and processes it leaves to the collector
def test_a_sweep_on_ray_is_the_same(tmp_path):
    ray = pytest.importorskip("ray")
    from sigmascope.integrations.ray import RayMap

    x, y = bottleneck_task(0, samples=30)
    of = {"depths": [2, 3], "steps": 20}
    ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        shared = survey.bottleneck.depth_sweep(
            stack, x, y, **of, mapper=RayMap(), file=tmp_path / "a.jsonl"
        )
    finally:
        ray.shutdown()
    assert shared == survey.bottleneck.depth_sweep(stack, x, y, **of)
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1 + 2


def test_without_ray_it_says_how_to_get_it():
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "try:\n    import sigmascope.integrations.ray\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'sigmascope[ray]'" in done.stdout
    assert "processes of this machine" in done.stdout

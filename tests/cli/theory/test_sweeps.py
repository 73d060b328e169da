import json
import sys
from pathlib import Path

import pytest
import torch

from sigmascope.cli.theory import Stacks, standardised
from sigmascope_experiments.jacot2023.tasks import bottleneck_task

SMALL = ("--depths", "2", "3", "--steps", "30", "--width", "8", "--samples", "40")


@pytest.fixture
def task(sigmascope):
    x, y = bottleneck_task(0, samples=60)
    torch.save({"inputs": x, "targets": y}, "task.pt")
    return sigmascope


def test_it_trains_and_tells(task):
    code, out, err = task("bottleneck", "train", "task.pt", *SMALL)
    assert (code, err) == (0, "")
    assert "NTK trace / depth" in out
    form = json.loads(task("bottleneck", "train", "task.pt", *SMALL, "--json", "-")[1])
    assert form["schema"] == "sigmascope/sweep/1"
    assert [n["depth"] for n in form["networks"]] == [2, 3]


def test_penalties_are_swept_and_coordinates_drawn(task):
    words = (*SMALL[:3], *SMALL[3:], "--ridge", "0.001", "0.01", "--picture", "p.svg")
    code, out, err = task("bottleneck", "train", "task.pt", *words)
    assert code == 0
    assert "ridge" in out
    assert "p.svg is not written" in err or Path("p.svg").read_text().count("<circle") == 40


def test_it_goes_on_where_it_was(task):
    task("bottleneck", "train", "task.pt", *SMALL, "--file", "s.jsonl")
    first = Path("s.jsonl").read_text()
    task("bottleneck", "train", "task.pt", *SMALL[:3], "4", *SMALL[3:], "--file", "s.jsonl")
    assert Path("s.jsonl").read_text().startswith(first)
    assert len(Path("s.jsonl").read_text().splitlines()) == 1 + 3


def test_classes_become_outputs(sigmascope):
    code, out, _ = sigmascope("bottleneck", "train", "digits", *SMALL)
    assert code == 0
    assert "depth" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("gaussian?shape=3",), "and targets"),
        (("digits", "--depths", "1"), "`depths` must be 2 or more"),
        (("digits", "--ridge", "0"), "Must be > 0"),
        (("digits", "--file", "nowhere/a.jsonl"), "mkdir -p nowhere"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("bottleneck", "train", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_columns_are_standardised_and_constants_stay_zero():
    x = torch.stack([torch.arange(5.0), torch.full((5,), 3.0)], dim=1)
    found = standardised(x, 0.4)
    assert torch.allclose(found.std(0), torch.tensor([0.4, 0.0]))
    assert torch.equal(found[:, 1], torch.zeros(5))


def test_networks_have_the_depth_that_is_asked_for():
    net = Stacks(6, 2, 5)(4, torch.Generator().manual_seed(0))
    assert sum(isinstance(m, torch.nn.Linear) for m in net.modules()) == 4


def test_ray_is_optional(monkeypatch, task):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "sigmascope.integrations.ray", raising=False)
    code, out, err = task("bottleneck", "train", "task.pt", *SMALL, "--ray", "local")
    assert (code, out) == (2, "")
    assert "pip install 'sigmascope[ray]'" in err

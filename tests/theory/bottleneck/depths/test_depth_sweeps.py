"""Sweeps over depth: read off known laws, resumed where they were cut."""

import json

import pytest
import torch
from torch import nn

from sigmascope import theory
from sigmascope.gate import Refusal
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, stack


def test_several_penalties_are_trained_and_coordinates_kept():
    x, y = bottleneck_task(0, samples=30)
    found = theory.bottleneck.depth_sweep(stack, x, y, depths=[3], steps=5, ridge=[1e-2, 1e-3])
    assert [n.ridge for n in found.networks] == [1e-3, 1e-2]
    assert all(len(n.coordinates) == 30 for n in found.networks)
    one = theory.bottleneck.depth_sweep(stack, x, y, depths=[3], steps=5, ridge=1e-2)
    assert one.networks == found.networks[1:]


def linear(depth, generator):
    layers = [nn.Linear(3, 3) for _ in range(depth)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.6, generator=generator)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def test_a_sweep_is_resumed_with_identical_results(tmp_path):
    x, y = bottleneck_task(0, samples=40)
    of = {"depths": [3, 4], "steps": 40}
    whole = theory.bottleneck.depth_sweep(stack, x, y, **of, file=tmp_path / "whole.jsonl")
    head, first, _ = (tmp_path / "whole.jsonl").read_text().splitlines()
    cut = f'{head}\n{first}\n{{"depth": 4, "se'  # killed while writing
    (tmp_path / "cut.jsonl").write_text(cut)
    said = []
    again = theory.bottleneck.depth_sweep(
        stack, x, y, **of, file=tmp_path / "cut.jsonl", progress=lambda *w: said.append(w)
    )
    assert again == whole
    assert (tmp_path / "cut.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert said == [("training", 1, 2), ("depth 4", 2, 2)]
    assert theory.bottleneck.depth_sweep(stack, x, y, **of).networks == whole.networks


def test_training_drives_a_linear_map_to_its_least_norm():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=g)
    y = x @ torch.diag(torch.tensor([1.5, 1.0, 0.0]))
    found = theory.bottleneck.depth_sweep(
        linear, x, y, depths=[3], steps=1500, ridge=3e-3, rate=2e-2
    )
    (network,) = found.networks
    assert network.fits
    assert network.rank[0] == 2
    least = 3 * (1.5 ** (2 / 3) + 1)
    assert network.norm == pytest.approx(least, rel=0.03)


def test_work_can_be_shared(tmp_path):
    x, y = bottleneck_task(0, samples=20)
    seen = []

    def mapper(run, many):
        seen.extend(many)
        return [run(one) for one in reversed(list(many))]

    theory.bottleneck.depth_sweep(stack, x, y, depths=[3, 2], seeds=[0, 5], steps=3, mapper=mapper)
    assert seen == [(2, 1e-3, 0), (2, 1e-3, 5), (3, 1e-3, 0), (3, 1e-3, 5)]


def test_denormals_are_as_before():
    x, y = bottleneck_task(0, samples=10)
    theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2)
    denormal = lambda: float(torch.tensor(1e-310, dtype=torch.float64) * 1)
    assert denormal() > 0
    torch.set_flush_denormal(True)
    try:
        theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2)
        assert denormal() == 0
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals(tmp_path):
    x, y = bottleneck_task(0, samples=10)
    with pytest.raises(Refusal, match="a row for each sample"):
        theory.bottleneck.depth_sweep(stack, x, y[:5], depths=[2])
    with pytest.raises(Refusal, match="`depths` must be 2 or more"):
        theory.bottleneck.depth_sweep(stack, x, y, depths=[1])
    file = tmp_path / "a.jsonl"
    theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2, file=file)
    assert json.loads(file.read_text().splitlines()[0])["recipe"]["steps"] == 2
    with pytest.raises(Refusal, match="steps is 2 there and 3 here"):
        theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=3, file=file)
    wider = lambda depth, g: linear(depth, g).append(nn.Linear(3, 3))
    with pytest.raises(Refusal, match="network is"):
        theory.bottleneck.depth_sweep(wider, x, y, depths=[2], steps=2, file=file)
    tanh = lambda depth, g: nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20))
    with pytest.raises(Refusal, match="must give plain stacks"):
        theory.bottleneck.depth_sweep(tanh, x, y, depths=[2], steps=2)

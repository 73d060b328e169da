"""Spectra of weights while they train."""

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import WeightSpectra, spectra
from sigmascope.watching.probes.base import alone
from sigmascope.watching.processes import Processes


def read(model, turns):
    probe = WeightSpectra(model, Processes(), torch.Generator().manual_seed(0))
    found = []
    for _ in range(turns):
        alone(probe.agree())
        found += probe.read(probe.local())
    return {(f.quantity, s): e for f in found if hasattr(f, "quantity")
            for s, e in zip(f.sites, f.estimates or f.values, strict=True)}  # fmt: skip


def test_norms_and_ranks_are_those_of_the_singular_values():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 12), nn.Linear(12, 9)).double()
    found = read(model, 2)
    for site in ("0.weight", "1.weight"):
        s = torch.linalg.svdvals(model.get_parameter(site).detach())
        assert found["spectral norm", site].value == pytest.approx(float(s[0]), rel=1e-12)
        stable = float(s.square().sum() / s[0] ** 2)
        assert found["stable rank", site].value == pytest.approx(stable, rel=1e-12)


def test_noise_has_no_spikes_and_a_planted_one_is_counted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(60, 60, bias=False), nn.Linear(60, 60, bias=False))
    with torch.no_grad():
        for layer in model:
            layer.weight.normal_()
        model[1].weight.add_(torch.outer(*torch.randn(2, 60)) * 0.6)
    found = read(model, 2)
    assert found["spikes", "0.weight"].value == 0
    assert found["spikes", "1.weight"].value == 1


def test_large_weights_are_read_by_their_leading_values(monkeypatch):
    monkeypatch.setattr(spectra, "FULL", 16)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(80, 60))
    found = read(model, 1)
    s = torch.linalg.svdvals(model[0].weight.detach().double())
    norm = found["spectral norm", "0.weight"]
    assert norm.low <= float(s[0]) <= norm.high
    stable = found["stable rank", "0.weight"]
    assert stable.low <= float(s.square().sum() / s[0] ** 2) <= stable.high


@pytest.mark.parametrize(("value", "norm"), [(0.0, 0.0), (float("nan"), None)])
def test_zero_and_broken_weights_are_said_to_be(value, norm):
    model = nn.Sequential(nn.Linear(4, 4))
    nn.init.constant_(model[0].weight, value)
    found = read(model, 1)["spectral norm", "0.weight"]
    assert found == norm if norm is not None else found != found


def test_kernels_are_flattened_and_vectors_left_out():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    found = read(model, 1)
    assert {site for _, site in found} == {"0.weight"}

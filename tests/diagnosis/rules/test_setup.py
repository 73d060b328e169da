"""Rules on the setup that no planted fault shows, and where they stay silent."""

import math

import pytest
import torch
from torch import nn

from sigmascope import networks, sources
from sigmascope.diagnosis.rules.setup import (
    cut_weights,
    frozen_layers,
    offset_inputs,
    strong_residual,
    stuck_weights,
    unscaled_inputs,
    weight_scale,
)
from sigmascope.records import Layer, Profile
from tests.diagnosis.readings import ABOVE, BELOW, layers, profile, reading, said, series
from tests.diagnosis.rules.networks import found, mlp
from tests.diagnosis.rules.test_training import runs


def test_denormal_numbers(digits):
    model = mlp(2, bias=False)
    model.hidden[1].linear.weight.data.mul_(1e-42)
    assert "denormal-values" in found(model, digits)


def test_a_branch_that_starts_at_zero_is_no_cut(digits):
    """Behind a zero that moves, gradients are zero in the first step only."""
    data = sources.Data(digits.inputs, digits.targets, "digits", 10)
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=10, depth=8, width=16, generator=g)
    for stage in model.stages:
        stage[0].second.norm.weight.data.zero_()
    assert not {"no-gradient", "zero-weights"} & set(found(model, data))


def test_all_frozen_is_an_error(digits):
    model = mlp().requires_grad_(False)
    assert found(model, digits, ["setup"])["frozen-layer"].severity == "error"


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_inputs_of_usual_size_are_not_blamed(digits, scale):
    data = sources.Data(scale * digits.inputs, digits.targets, "digits", 10)
    assert "unscaled-inputs" not in found(mlp(), data)


def test_four_of_the_normalisers_without_statistics_are_shown(digits):
    layers = [m for _ in range(6) for m in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10)).eval()
    finding = found(model, digits)["untouched-statistics"]
    assert finding.says.startswith("6 batch normalisers")
    assert [r.site for r in finding.evidence] == ["2", "5", "8", "11"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((4.0 * ABOVE, 4.0 * ABOVE, 1.0), {"weight-scale": "warning"}),
        ((4.0, 4.0, 1.0), {}),
        ((5.0, 1.0), {}),  # more than half
        ((5.0,), {}),
        ((0.02 * BELOW, 0.02 * BELOW, 1.0), {"weight-scale": "warning"}),
        ((0.02, 0.02, 1.0), {}),
        ((0.0, 5.0, 5.0, 1.0), {"weight-scale": "warning"}),  # zeros are not counted
    ],
)
def test_how_large_most_layers_make_differences(values, found):
    assert said(weight_scale, *series("gain", *values)) == found


def test_the_gain_that_is_told_is_the_geometric_mean():
    (found,) = weight_scale(profile(*series("gain", 5.0, 20.0, 1.0)))
    assert "2 of 3 layers make differences between samples 10 times as large" in found.says
    assert "too large" in found.says


@pytest.mark.parametrize(
    ("branches", "square", "grown", "speaks"),
    [
        # 16 branches of strength s let the mean square grow (1 + s²)^16 times
        (16, 10 ** (4 / 16) * ABOVE - 1, 1.1e4, True),
        (16, 10 ** (4 / 16) * BELOW - 1, 1.1e4, False),
        (15, 10 ** (4 / 15) * ABOVE - 1, 1.1e4, False),
        (16, 10 ** (4 / 16) * ABOVE - 1, 1e4 * ABOVE, True),
        (16, 10 ** (4 / 16) * ABOVE - 1, 1e4 * BELOW, False),
    ],
)
def test_how_strong_branches_may_be(branches, square, grown, speaks):
    strengths = series("branch strength", *[math.sqrt(square)] * branches)
    stream = series("mean square", 0.0, 2.0, 2.0 * grown, form="samples")
    assert (said(strong_residual, *strengths, *stream) != {}) is speaks


def test_the_strongest_branch_is_told():
    strengths = series("branch strength", *[1.0] * 15, 9.0)
    stream = series("mean square", 1.0, 1e9, form="samples")
    (found,) = strong_residual(profile(*strengths, *stream))
    assert "16 residual branches have up to 9 times" in found.says
    assert "grows 2.7e+06 times" in found.says  # 2^15 (1 + 81)


@pytest.mark.parametrize(
    ("thawed", "trained", "severity"),
    [
        (None, True, "note"),  # as it may be meant
        (0.7, True, "note"),
        (0.7 * BELOW, True, "warning"),  # training with all weights is better beyond doubt
        (None, False, "error"),  # nothing is trained
    ],
)
def test_what_is_frozen_is_at_fault_where_training_is_better_without(thawed, trained, severity):
    kinds = (Layer("layer 0", "Linear", 0, ("layer 0.weight",)),)
    rows = [reading("frozen entries", 5, "layer 0.weight", form="matrix")]
    rows += [reading("relative gradient", 0.1, "adapter")] * trained
    rows += runs(1.0, *[("nothing frozen", thawed, None)] * (thawed is not None))
    (finding,) = frozen_layers(Profile(tuple(rows), layers=kinds))
    assert finding.severity == severity


@pytest.mark.parametrize(("form", "speaks"), [("", True), ("behind zeros", False)])
def test_what_is_behind_zeros_is_not_cut(form, speaks):
    rows = [reading("relative gradient", 0.0, "layer 0.weight", form=form),
            reading("relative gradient", 0.1, "layer 1.weight")]  # fmt: skip
    measured = Profile(tuple(rows), layers=layers(2))
    assert bool([*cut_weights(measured)]) == speaks


@pytest.mark.parametrize(("form", "speaks"), [("", True), ("cut", False)])
def test_zeros_that_constants_multiply_are_not_blamed(form, speaks):
    r = reading("gradient of a zero weight", 0.0, "layer 0.weight", form=form)
    assert bool([*stuck_weights(Profile((r,), layers=layers(2)))]) == speaks


class Adapted(nn.Module):
    """A frozen layer with a product of low rank beside it."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down, self.up = nn.Linear(inputs, rank, False), nn.Linear(rank, outputs, False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def test_what_is_frozen_beside_an_adapter_is_meant(digits):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), Adapted(64, 64, 4), nn.ReLU(), nn.Linear(64, 10))
    assert found(model, digits)["frozen-layer"].severity == "note"


@pytest.mark.parametrize(
    ("spread", "left", "scaled", "severity"),
    [
        (0.05, 1.0, 0.1, None),
        (0.05 * BELOW, 1.0, 0.1, "error"),  # nothing is learned, and without the mean it is
        (0.05 * BELOW, 0.94, 0.1, "warning"),
        (0.05 * BELOW, 1.0, 0.9, "note"),
        (1e-7, 1.0, 0.1, None),  # they are the same, which has a rule of its own
    ],
)
def test_inputs_with_a_mean_that_drowns_what_tells_them_apart(spread, left, scaled, severity):
    facts = [reading("input size", 1.0, "0"), reading("input spread", spread, "0")]
    facts += runs(left, ("scaled inputs", scaled, None))
    assert [f.severity for f in offset_inputs(profile(*facts))] == [severity] * bool(severity)


@pytest.mark.parametrize(
    ("left", "scaled", "severity", "told"),
    [
        (math.inf, 0.1, "error", True),  # training breaks on the size alone
        (1.0, 0.7 * BELOW, "warning", True),
        (1.0, 0.7, "warning", False),
        (math.inf, 0.9, "warning", False),
    ],
)
def test_inputs_that_are_seen_to_stop_training(left, scaled, severity, told):
    facts = (reading("input size", 100.0, "0"), *runs(left, ("scaled inputs", scaled, None)))
    (finding,) = unscaled_inputs(profile(*facts))
    assert finding.severity == severity
    assert ("nothing else changed" in finding.says) == told


@pytest.mark.parametrize(("left", "speaks"), [(0.95, True), (0.95 * BELOW, False), (None, False)])
def test_no_weight_gets_a_gradient(left, speaks):
    """Where training learns nothing: of a task that is solved, no gradient is no fault."""
    still = [reading("relative gradient", 0.0, f"layer {i}.weight", "setup") for i in range(2)]
    facts = (*still, *(() if left is None else runs(left)))
    measured = Profile(facts, layers=layers(2))
    assert [f.severity for f in cut_weights(measured)] == (["error"] if speaks else [])

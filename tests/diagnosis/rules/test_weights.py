"""Rules on weights and on how layers are put together, and where they stay silent."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.core.records import Layer, Profile, SiteSpectrum
from sigmascope.diagnosis.rules.weights import (
    asymmetric_weights,
    equal_units,
    frozen_layers,
    linear_layers,
    linear_network,
    strong_residual,
    stuck_weights,
    weight_scale,
)
from sigmascope.linalg.spectra import spectrum
from sigmascope.models import networks
from tests.diagnosis.readings import ABOVE, BELOW, layers, ones, profile, reading, said, series
from tests.diagnosis.rules.networks import found, mlp
from tests.diagnosis.rules.test_training import runs
from tests.models_zoo import Net


@pytest.mark.parametrize(("share", "severity"), [(0.15, "error"), (0.16, "warning")])
def test_units_that_are_all_the_same_are_an_error(share, severity):
    """Of ten units, 1.5 and 1.6 that are distinct."""
    spectra = (
        SiteSpectrum("layer 0", "representations", "samples", spectrum(ones(4, 10))),
        SiteSpectrum("layer 1", "representations", "samples", spectrum(ones(4, 2))),
    )
    found = said(equal_units, reading("distinct units", share, form="samples"), spectra=spectra)
    assert found == {"equal-units": severity}


@pytest.mark.parametrize(("form", "speaks"), [("samples", False), ("matrix", True)])
def test_units_of_samples_that_arrive_as_one_are_not_judged_by_their_values(form, speaks):
    lost = (
        reading("distinct samples", 9, "(inputs)", "setup"),
        *series("relative variation", 0.0, 0.0, form="samples"),
    )
    found = said(equal_units, *lost, reading("distinct units", 0.1, form=form))
    assert (found != {}) is speaks


def test_a_branch_that_starts_at_zero_is_no_cut(digits):
    """Behind a zero that moves, gradients are zero in the first step only."""
    data = sources.Data(digits.inputs[:32], digits.targets[:32], "digits", 10)
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=10, depth=8, width=8, generator=g)
    for stage in model.stages:
        stage[0].second.norm.weight.data.zero_()
    assert not {"no-gradient", "zero-weights"} & set(found(model, data))


def test_all_frozen_is_an_error(digits):
    model = mlp().requires_grad_(False)
    assert found(model, digits, ["setup"])["frozen-layer"].severity == "error"


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


@pytest.mark.parametrize(("form", "speaks"), [("", True), ("cut", False), ("behind zeros", False)])
def test_zeros_that_constants_multiply_are_not_blamed(form, speaks):
    r = reading("gradient of a zero weight", 0.0, "layer 0.weight", form=form)
    assert bool([*stuck_weights(Profile((r,), layers=layers(2)))]) == speaks


def test_what_is_frozen_beside_an_adapter_is_meant(digits):
    torch.manual_seed(0)
    base, down, up = nn.Linear(64, 64), nn.Linear(64, 4, False), nn.Linear(4, 64, False)
    nn.init.zeros_(up.weight)
    run = lambda self, x: self.base(x) + self.up(self.down(x))
    adapted = Net(run, base=base.requires_grad_(False), down=down, up=up)
    model = nn.Sequential(nn.Flatten(), adapted, nn.ReLU(), nn.Linear(64, 10))
    assert found(model, digits)["frozen-layer"].severity == "note"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((2 * ABOVE, 2 * ABOVE, 0.1), [0]),
        ((2.0, 2.0, 0.1), None),
        ((3.0, 3.0), None),  # three layers at least
        ((3.0, 3.0, 0.1, 0.1), None),  # most of them
        ((3.0, 5.0, 0.1), [1, 0]),  # the worst, and the first
        ((5.0, 3.0, 0.1), [0]),
    ],
)
def test_how_many_weights_may_have_a_mean_and_which_are_shown(values, shown):
    sites = [f"layer {i}.weight" for i in range(len(values))]
    shifts = [reading("mean shift", v, s, "weights") for v, s in zip(values, sites, strict=True)]
    found = [*asymmetric_weights(profile(*shifts, count=len(values)))]
    told = [(f.site, [r.site for r in f.evidence]) for f in found]
    assert told == ([] if shown is None else [(sites[0], [sites[i] for i in shown])])


X = torch.rand(32, 6, generator=torch.Generator().manual_seed(0))  # all positive
Y = X.sum(1, keepdim=True)


def linear(*layers, batch=X):
    torch.manual_seed(0)
    model = nn.Sequential(*layers)
    profile = survey.profile(model, batch, targets=Y, loss=F.mse_loss, views=["setup"])
    return [*linear_network(profile)]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_of_layers_that_are_one_map_the_first_two_are_named_and_four_shown(count):
    pairs = [
        reading("spare width", 1, f"layer {i + 1}", form=f"after layer {i}")
        for i in range(2, 2 + count)
    ]
    (finding,) = linear_layers(profile(*pairs, count=5 * count - 1))
    assert finding.site == "layer 3"
    assert finding.evidence == tuple(pairs[:4])
    told = re.findall(r"layer \d|\d such", finding.says)
    assert told == ["layer 3", "layer 2", *([f"{count} such"] if count > 1 else [])]


@pytest.mark.parametrize("end", [[], [nn.Sigmoid()]])
@pytest.mark.parametrize("between", [[], [nn.Dropout(0.5)], [nn.BatchNorm1d(8)]])
def test_a_network_without_activations_is_one_linear_map(between, end):
    (f,) = linear(nn.Linear(6, 8), *between, nn.Linear(8, 1), *end)
    assert (f.name, f.severity) == ("linear-network", "note")
    assert "All 2 layers" in f.says


@pytest.mark.parametrize("act", [nn.ReLU(), nn.GELU(), nn.Tanh(), nn.LeakyReLU(0.99)])
def test_with_one_it_is_not(act):
    """Even where units that are never off make it one on these samples."""
    first = nn.Linear(6, 8)
    model = [first, act, nn.Linear(8, 1)]
    with torch.no_grad():
        first.weight.abs_()
        first.bias.fill_(1.0)
    assert linear(*model) == []


def test_convolutions_count():
    images = torch.randn(32, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    layers = [nn.Conv2d(1, 2, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 1)]
    assert [f.name for f in linear(*layers, batch=images)] == ["linear-network"]
    layers.insert(2, nn.MaxPool2d(1, 1))
    assert linear(*layers, batch=images) == []


def test_one_layer_is_what_it_is():
    assert linear(nn.Linear(6, 1)) == []

"""Rules with a second witness: each next to its threshold, and on networks."""

import re

import pytest
import torch
from torch import nn

from sigmascope import networks
from sigmascope.diagnosis.rules.first_steps import (
    layer_gain,
    loud_output,
    no_tangents,
    tangent_size,
    unrelated_targets,
)
from tests.diagnosis.readings import ABOVE, BELOW, profile, reading, said, series
from tests.diagnosis.rules.networks import found

LOUD = {"loud-output": "warning"}
RATIO, NATS = "first loss over a constant's", "nats over equal scores"


@pytest.mark.parametrize(("ratio", "nats", "told"), [
    (2.0, 4.6, {}), (2.0, 4.6 * ABOVE, LOUD), (20.0 * ABOVE, 1.0, LOUD), (20.0 * ABOVE, 50.0, LOUD),
])  # fmt: skip
def test_how_loud_an_output_starts(ratio, nats, told):
    both = reading(RATIO, ratio, "(loss)"), reading(NATS, nats, "(loss)")
    assert said(loud_output, *both, count=3) == told


def test_loss_is_told_once():
    both = reading(RATIO, 30.0, "(loss)"), reading(NATS, 60.0, "(loss)")
    assert len([*loud_output(profile(*both, count=3))]) == 1


@pytest.mark.parametrize(
    ("total", "name"),
    [
        (1e-6 * ABOVE, None),
        (1e-6 * BELOW, "tangent-size"),
        (1e9 * BELOW, None),
        (1e9 * ABOVE, "tangent-size"),
        (0.0, "no-tangents"),
    ],
)
def test_how_large_the_tangent_kernel_may_be(total, name):
    parts = series("NTK trace", total / 4, total / 2, total / 4, view="features")
    found = [*no_tangents(profile(*parts)), *tangent_size(profile(*parts))]
    assert [f.name for f in found] == ([name] if name else [])
    if name == "tangent-size":
        assert "50% of it from layer 1" in found[0].says
        assert ("hardly move" in found[0].says) is (total < 1)
    assert said(tangent_size, *parts[:2]) == said(no_tangents, *parts[:2]) == {}


@pytest.mark.parametrize(("trace", "step", "speaks"), [
    (1e10, None, True),
    (1e10, 1e-4, True),
    (1e10, 1e-4 * ABOVE, False),
    (1e-9, 1e3, True),
    (1e-9, 1e3 * BELOW, False),
    (10.0, 1e-9, False),
])  # fmt: skip
def test_the_gradient_of_the_loss_confirms_the_tangents(trace, step, speaks):
    rows = series("NTK trace", trace, trace, trace)
    if step is not None:
        rows.append(reading("Polyak step", step, "(loss)"))
    told = said(tangent_size, *rows, count=4)
    assert told == ({"tangent-size": "warning"} if speaks else {})


@pytest.mark.parametrize(("signal", "most", "power", "speaks"), [
    (1.0, 0.045 * BELOW, 5.0, True),
    (1.0, 0.045, 5.0, False),
    (1.0, 0.01, 4.0, False),
    (2.0, 0.01, 5.0, False),
])  # fmt: skip
def test_unrelated_targets_need_power(signal, most, power, speaks):
    values = {
        "target signal": signal, "told by neighbours at most": most, "told of smooth targets": power
    }  # fmt: skip
    told = said(unrelated_targets, *(reading(q, v) for q, v in values.items()))
    assert told == ({"unrelated-targets": "warning"} if speaks else {})


def sizes(factor, layers, noise=1.0):
    wiggle = [noise if i % 2 else 1 / noise for i in range(layers)]
    return series(
        "mean square", 1.0, *(factor**i * w for i, w in enumerate(wiggle)), form="samples"
    )


@pytest.mark.parametrize(("factor", "layers", "noise", "speaks"), [
    (0.5, 12, 1.0, True),
    (0.5, 10, 1.0, False),  # 2^9 in all
    (0.5, 7, 1.0, False),
    (0.1, 8, 1.0, True),
    (0.1, 7, 1.0, False),
    (2.0, 12, 1.0, True),
    (0.5, 12, 3.0, False),  # not the same in every layer
])  # fmt: skip
def test_the_same_factor_in_every_layer(factor, layers, noise, speaks):
    told = said(layer_gain, *sizes(factor, layers, noise))
    assert told == ({"layer-gain": "warning"} if speaks else {})


def test_glorot_with_relu_in_depth(digits):
    torch.manual_seed(0)
    layers = [m for _ in range(34) for m in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))
    for m in model:
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
    told = found(model, digits)
    assert told["layer-gain"].follows == ""
    assert re.search(r"must be 1\.[45]\d times as large", told["layer-gain"].says)
    assert told["vanishing-signal"].follows == "layer-gain"
    with torch.no_grad():
        for m in model:
            if isinstance(m, nn.Linear):
                m.weight.mul_(2**0.5)
    assert "layer-gain" not in found(model, digits)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_normalised_networks_are_not_blamed(digits, norm):
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=20, width=64, norm=norm, generator=g)
    assert "layer-gain" not in found(model, digits)

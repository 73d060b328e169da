"""Sizes speak from their thresholds on and not before them, as docs/findings.md has it."""

import math

import pytest

from sigmascope.diagnosis.rules.magnitudes import adjoint_size, dead_units, signal_size
from sigmascope.records import Profile
from tests.diagnosis.readings import ABOVE, BELOW, layers, profile, reading, said, series


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (1e-5 * ABOVE, {}),
        (1e-5, {}),
        (1e5, {}),
        (1e-5 * BELOW, {"vanishing-signal": "warning"}),
        (1e-8 * ABOVE, {"vanishing-signal": "warning"}),
        (1e-8 * BELOW, {"vanishing-signal": "error"}),
        (0.0, {"vanishing-signal": "error"}),
        (1e5 * BELOW, {}),
        (1e5 * ABOVE, {"exploding-signal": "warning"}),
        (1e8 * BELOW, {"exploding-signal": "warning"}),
        (1e8 * ABOVE, {"exploding-signal": "error"}),
    ],
)
def test_how_far_the_signal_may_change(last, found):
    values = [1.0, math.sqrt(last), last]
    assert said(signal_size, *series("mean square", *values, form="samples")) == found
    # two layers are no depth, and nothing is said of a change from nothing
    assert said(signal_size, *series("mean square", 3.0, 3.0 * last, form="samples")) == {}
    assert said(signal_size, *series("mean square", 0.0, 1.0, last, form="samples")) == {}


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (1e-4 * ABOVE, {}),
        (1e-4 * BELOW, {"vanishing-adjoints": "warning"}),
        (1e-6 * ABOVE, {"vanishing-adjoints": "warning"}),
        (1e-6 * BELOW, {"vanishing-adjoints": "error"}),
        (1e4 * BELOW, {}),
        (1e4 * ABOVE, {"exploding-adjoints": "warning"}),
        (1e6 * BELOW, {"exploding-adjoints": "warning"}),
        (1e6 * ABOVE, {"exploding-adjoints": "error"}),
    ],
)
def test_how_far_adjoints_may_change(first, found):
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0, 3.0)) == found
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0)) == {}
    assert said(adjoint_size, *series("adjoint norm", first, 1.0, 0.0)) == {}


def test_the_worst_of_the_dead_layers_is_told():
    (found,) = dead_units(profile(*series("dead units", 0.8, 0.1, 0.96, 0.9)))
    assert (found.site, found.severity) == ("layer 0", "error")
    assert "96 % of the units that layer 2 reads" in found.says
    assert "units of 2 other layers" in found.says


@pytest.mark.parametrize(("first", "held", "speaks"), [
    (101.0, True, True), (99.0, True, False), (1.0, False, True),
])  # fmt: skip
def test_derivatives_with_held_statistics_ask_the_gradient_of_the_loss(first, held, speaks):
    rows = series("adjoint norm", 1e5, 1e3, 1.0)
    for i, value in enumerate((first, 10.0, 1.0)):
        rows.append(reading("relative gradient", value, f"layer {i}.weight"))
    if held:
        rows.append(reading("batch statistics", 3.0, "(model)"))
    measured = Profile(tuple(rows), layers=layers(3))
    assert [f.name for f in adjoint_size(measured)] == (["exploding-adjoints"] if speaks else [])


def test_a_derivative_that_is_zero_behind_a_weight_that_moves_is_none_that_vanished():
    rows = series("adjoint norm", 0.0, 0.0, 1.0)
    assert said(adjoint_size, *rows) == {"vanishing-adjoints": "error"}
    rows.append(reading("gradient of a zero weight", 0.1, "layer 2.weight"))
    assert said(adjoint_size, *rows, count=3) == {}

"""Rules on inputs and targets as they are handed over, next to their thresholds."""

import math

import pytest
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.core.records import Estimate, Reading
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules.data import (
    alike_inputs,
    offset_inputs,
    repeated_inputs,
    sorted_samples,
    unscaled_inputs,
)
from sigmascope.diagnosis.rules.representations import lost_inputs
from tests.diagnosis.readings import ABOVE, BELOW, profile, reading, said, series
from tests.diagnosis.rules.networks import found, mlp
from tests.diagnosis.rules.test_training import runs


@pytest.mark.parametrize(
    ("sizes", "distinct", "told"),
    [
        ((0.0,), 1, {"alike-inputs": "warning"}),
        ((0.0,), 9, {"lost-inputs": "error"}),
        ((0.0, 0.0), 9, {"lost-inputs": "error"}),
        ((0.0, 1.0), 9, {}),  # an initial state of zeros, beside the inputs
        ((1.0,), 1, {"alike-inputs": "warning"}),  # ids: nothing was read of how far they differ
        ((1.0,), 9, {}),
    ],
)
def test_zeros_and_ids_that_are_all_the_same(sizes, distinct, told):
    facts = [reading("input size", size, str(i), "setup") for i, size in enumerate(sizes)]
    facts.append(reading("distinct samples", distinct, "(inputs)", "setup"))
    assert said(alike_inputs, *facts) | said(lost_inputs, *facts) == told
    assert said(unscaled_inputs, *facts) == {}


def test_what_other_parts_may_tell_apart_is_not_alike():
    facts = [*series("relative variation", 0.0, 0.0, form="samples")]
    unknown = Reading("(inputs)", "distinct samples", Estimate(1, 1, 5, "edges"), "setup")
    assert said(alike_inputs, *facts) == {"alike-inputs": "warning"}
    assert said(alike_inputs, *facts, unknown) == {}
    assert said(lost_inputs, *facts, unknown) == {}


@pytest.mark.parametrize(("size", "spoken"), [(1.0, False), (1e4, True), (1e-4, True)])
def test_values_of_unusual_size(digits, size, spoken):
    values = size * digits.inputs.flatten(1)[:, 10:12]
    measured = survey.profile(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
        digits.inputs,
        targets=values,
        loss=F.mse_loss,
        views=["setup"],
    )
    assert ("unscaled-targets" in [f.name for f in judge(measured)]) == spoken


@pytest.mark.parametrize(("share", "speaks"), [(0.5, False), (0.5 * ABOVE, True)])
def test_equal_samples_whose_targets_differ(share, speaks):
    facts = (
        reading("contradicted targets", share, "(targets)", "setup"),
        reading("distinct samples", 9, "(inputs)", "setup"),
    )
    assert said(repeated_inputs, *facts) == ({"repeated-inputs": "warning"} if speaks else {})
    assert said(repeated_inputs, *facts[:1]) == {}


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_inputs_of_usual_size_are_not_blamed(digits, scale):
    data = sources.Data(scale * digits.inputs, digits.targets, "digits", 10)
    assert "unscaled-inputs" not in found(mlp(), data)


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


def test_the_size_of_what_one_layer_reads_is_told_once():
    """Though it is called for each of two images."""
    facts = [reading("input size", 100.0, site) for site in ("0", "0#2", "1", "1#2")]
    assert [f.site for f in unscaled_inputs(profile(*facts))] == ["0", "1"]
    facts[0] = reading("input size", 1.0, "0")
    assert [f.site for f in unscaled_inputs(profile(*facts))] == ["0#2", "1"]


@pytest.mark.parametrize(
    ("share", "chance", "severity"),
    [
        (0.5, 0.01, "warning"),
        (0.5 * BELOW, 0.01, None),
        (1.0, 0.05 * BELOW, "warning"),
        (1.0, 0.05 * ABOVE, None),  # one class is so frequent that mixed batches hold it alone
    ],
)
def test_sorted_samples(share, chance, severity):
    facts = [reading("batches of one class", share, "(loader)", "setup")]
    facts.append(reading("the same if mixed", chance, "(loader)", "setup"))
    assert said(sorted_samples, *facts).get("sorted-samples") == severity

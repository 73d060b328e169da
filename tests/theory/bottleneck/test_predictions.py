"""Designs that are never built, next to what is known of them."""

import math

import pytest
import torch
from scipy.special import digamma

from sigmascope import theory
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict


def predict(*args, **options):
    generator = torch.Generator().manual_seed(0)
    return theory.bottleneck.predict(*args, **{"layers": 400, "generator": generator, **options})


def test_a_narrow_design_without_skip_connections():
    found = predict(8, 400)
    assert found.gap.value == pytest.approx((digamma(4.0) - digamma(3.5)) / 2)
    assert found.collapse.value == pytest.approx(math.log(1 / 8e-7) / found.gap.value)
    assert found.collapse.value < 400
    assert found.surviving.low <= 4 <= found.surviving.high
    assert 2.2 < found.chain.participation_ratio.value < 2.32
    said = {c.theorem: c.verdict for c in found.checks}
    assert said["chain-regularity"] is Verdict.HOLDS
    assert {*said.values()} == {Verdict.HOLDS, Verdict.VACUOUS}  # narrow: some limits say nothing


def test_weak_layers_put_the_collapse_off():
    """Gap and rate fall with gamma²: gamma = 1/√depth keeps the second direction."""
    depth = 400
    strong, weak = predict(8, depth, 1.0), predict(8, depth, 1 / math.sqrt(depth))
    assert strong.ratio.value < 1e-8
    assert weak.ratio.value > 0.1
    assert weak.collapse.value > depth


def test_asymmetric_weights_leave_one_direction():
    found = predict(8, 20, weights="asymmetric")
    assert found.surviving.value == 1
    assert found.chain.participation_ratio.value == pytest.approx(1, abs=1e-6)


def test_a_small_batch_caps_what_survives():
    found = predict(16, 10, samples=2).surviving
    assert found.low <= found.value <= found.high <= 2


def test_one_unit_is_refused():
    with pytest.raises(ValueError, match="`width` must be 2 or more"):
        predict(1, 10)


def test_steps_are_told():
    told = []
    predict(4, 10, layers=64, progress=lambda *step: told.append(step))
    assert told[0] == ("products", 0, 4)
    assert told[-1] == ("done", 4, 4)


@pytest.mark.parametrize("gamma", [math.nan, 1e300])
def test_a_strength_that_is_no_number_or_too_large_is_refused(gamma):
    with pytest.raises(Refusal, match="`gamma` must be at most"):
        predict(8, 5, gamma)

"""Shares that training reaches are foretold between their ends."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.trainability import ScoreModel, fit_scores
from sigmascope.diagnosis.trainability.scores import default_model


@given(st.floats(-8, 8))
def test_a_share_is_between_its_ends_and_these_between_0_and_1(x):
    told = default_model().forecast({"reached": x})
    assert 0 <= told.low <= told.value <= told.high <= 1
    assert told.risk == 0.1


@given(st.floats(-4, 4), st.floats(0, 4))
def test_who_has_come_farther_will_come_farther(x, more):
    near, far = (default_model().forecast({"reached": v}) for v in (x, x + more))
    assert near.value <= far.value


def test_log_odds_are_turned_back():
    """Zero log odds are a half, and 0.02 of margin lies beyond either end."""
    model = ScoreModel(("x",), (1.0, -1.0), (1.0, 0.0), (1.0, 1.0), 5)
    told = model.forecast({"x": 0.0})
    assert told.value == pytest.approx(0.5)
    assert told.low == pytest.approx(1.04 / (1 + math.e) - 0.02)
    assert told.high == pytest.approx(1 - told.low)
    assert model.forecast({"x": 60.0}).value == 1


def test_a_known_law_is_found_again():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, generator=g).tolist()
    reached = [1 / (1 + math.exp(-(v + 0.5 * float(torch.randn((), generator=g))))) for v in x]
    model = fit_scores([{"x": v} for v in x], reached)
    inside = sum(
        model.forecast({"x": v}).low <= r <= model.forecast({"x": v}).high
        for v, r in zip(x, reached, strict=True)
    )
    assert 170 <= inside <= 190
    assert model.forecast({"x": 0.0}).value == pytest.approx(0.5, abs=0.05)


def test_weights_count():
    rows = [{"x": 0.0}] * 40
    reached = [0.2] * 20 + [0.8] * 20
    low = fit_scores(rows, reached, weights=[3.0] * 20 + [1.0] * 20)
    high = fit_scores(rows, reached, weights=[1.0] * 20 + [3.0] * 20)
    assert low.forecast({"x": 0.0}).value < 0.3 < 0.7 < high.forecast({"x": 0.0}).value


def test_useless_sets_are_refused():
    with pytest.raises(Refusal, match="at least 20 networks how far it came, got 1"):
        fit_scores([{"x": 1.0}], [0.5])


def test_it_is_written_and_read(tmp_path):
    default_model().save(tmp_path / "again.json")
    assert ScoreModel.read(tmp_path / "again.json") == default_model()

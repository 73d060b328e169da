"""The model of learning curves finds the law of curves that have one."""

import math

import pytest
import torch

from sigmascope.diagnosis.trainability import Example, fit_forecasts, forecast
from sigmascope.gate import Refusal


def examples(count, off, kinds=("a", "b")):
    """Power laws whose end is off by a known spread."""
    g = torch.Generator().manual_seed(0)
    for i in range(count):
        power = 0.1 + 0.5 * float(torch.rand((), generator=g))
        losses = tuple(2 * t**-power for t in range(1, 61))
        planned = 100 + int(torch.randint(500, (), generator=g))
        kind = kinds[i % len(kinds)]
        error = off[kind] * float(torch.randn((), generator=g))
        reached = 2 * (0.975 * planned) ** -power * math.exp(error)
        yield Example(losses, planned, 2.0, reached, (kind,))


def test_power_laws_are_carried_on():
    model = fit_forecasts([*examples(60, {"a": 0.01, "b": 0.01})])
    assert model.trained == 60
    told = forecast([2 * t**-0.35 for t in range(1, 61)], 600, constant=2.0, by=model)
    assert told.value == pytest.approx(2 * 585**-0.35, rel=0.1)
    assert told.high / told.low < 1.3


def test_the_worst_kind_sets_the_interval():
    calm = fit_forecasts([*examples(120, {"a": 0.05, "b": 0.05})])
    wild = fit_forecasts([*examples(120, {"a": 0.05, "b": 0.5})])
    assert max(wild.errors) > 2 * max(calm.errors)
    assert list(wild.errors) == sorted(wild.errors)


def test_without_kinds_the_errors_are_those_of_all():
    many = [*examples(40, {"a": 0.2, "b": 0.2})]
    plain = fit_forecasts([Example(e.losses, e.planned, e.constant, e.reached) for e in many])
    inside = sum(
        forecast(e.losses, e.planned, constant=2.0, by=plain).low
        <= e.reached
        <= forecast(e.losses, e.planned, constant=2.0, by=plain).high
        for e in many
    )
    assert 32 <= inside <= 40


def test_few_curves_are_refused():
    with pytest.raises(Refusal, match="at least 20 curves, got 3"):
        fit_forecasts([*examples(3, {"a": 0.1, "b": 0.1})])

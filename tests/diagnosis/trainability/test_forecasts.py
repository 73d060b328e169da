"""Learning curves are carried on: units, ends and intervals as they must be, and as they came."""

import csv
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.trainability import Example, ForecastModel, fit_forecasts, forecast
from sigmascope.diagnosis.trainability.forecasts import default_model, window_of

TABLE = Path(__file__).parents[3] / "benchmarks/forecasts.csv"
HELD_OUT = 30_000  # seeds of curves that nothing was fitted to
CONSTANT = 2.3

powers = st.floats(0.01, 2.0)
starts = st.floats(0.2, 50.0)
known = st.integers(16, 120)


def falling(start, power, steps):
    return [start * t**-power for t in range(1, steps + 1)]


@given(starts, powers, known, st.integers(0, 1200))
@settings(max_examples=60, deadline=None)
def test_an_interval_is_around_its_value_and_above_the_floor(start, power, steps, more):
    told = forecast(falling(start, power, steps), steps + more, constant=CONSTANT)
    assert 0 <= told.low <= told.value <= told.high < math.inf


@given(starts, powers, known, st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_the_unit_of_the_loss_is_that_of_the_forecast(start, power, steps, unit):
    losses = falling(start, power, steps)
    plain = forecast(losses, 900, constant=CONSTANT)
    other = forecast([unit * v for v in losses], 900, constant=unit * CONSTANT)
    ends = lambda e: (e.low, e.value, e.high)
    assert ends(other) == pytest.approx([unit * v for v in ends(plain)], rel=1e-6)


@given(powers, known)
@settings(max_examples=40, deadline=None)
def test_a_floor_is_a_shift(power, steps):
    losses = falling(2.0, power, steps)
    plain = forecast(losses, 700, constant=CONSTANT)
    lifted = forecast([v + 5 for v in losses], 700, constant=CONSTANT + 5, floor=5)
    assert lifted.value == pytest.approx(plain.value + 5, rel=1e-6)
    assert lifted.low >= 5


@given(starts, powers, known, st.integers(1, 500), st.integers(1, 500))
@settings(max_examples=40, deadline=None)
def test_what_is_farther_is_less_sure(start, power, steps, near, further):
    losses = falling(start, power, steps)
    width = lambda e: math.log(max(e.high, 1e-30)) - math.log(max(e.low, 1e-30))
    one = forecast(losses, steps + near, constant=CONSTANT)
    two = forecast(losses, steps + near + further, constant=CONSTANT)
    assert width(two) >= width(one) - 1e-9


@given(powers, st.integers(20, 100), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_more_steps_known_are_surer(power, steps, times):
    losses = falling(2.0, power, steps * times)
    width = lambda e: math.log(e.high) - math.log(e.low)
    few = forecast(losses[:steps], 600, constant=CONSTANT)
    many = forecast(losses, 600, constant=CONSTANT)
    assert width(many) < width(few)


@given(st.floats(0.05, 0.45), st.floats(0.01, 0.4))
@settings(max_examples=20, deadline=None)
def test_less_risk_is_a_wider_interval(risk, less):
    losses = falling(2.0, 0.3, 50)
    wide = forecast(losses, 500, constant=CONSTANT, risk=risk * less)
    narrow = forecast(losses, 500, constant=CONSTANT, risk=risk)
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    assert wide.risk < narrow.risk


@given(powers)
@settings(max_examples=20, deadline=None)
def test_a_lower_curve_ends_lower(power):
    losses = falling(2.0, power, 60)
    lower = [0.5 * v for v in losses]
    ends = [forecast(each, 600, constant=CONSTANT).value for each in (lower, losses)]
    assert ends[0] < ends[1]


def test_a_power_law_is_within_its_interval():
    far = forecast(falling(1e9, 1.0, 60), 600, constant=CONSTANT)  # it starts far above a constant
    assert 0 < far.value < 1e9
    for power in (0.05, 0.2, 0.5, 0.9):
        told = forecast(falling(2.0, power, 80), 800, constant=CONSTANT)
        assert told.low < 2.0 * 780**-power < told.high


def test_what_does_not_move_stays():
    flat = [CONSTANT * (1 + 0.001 * (-1) ** t) for t in range(100)]
    told = forecast(flat, 200, constant=CONSTANT)
    assert told.value == pytest.approx(CONSTANT, rel=0.1)
    assert told.high / CONSTANT < 2


def test_losses_that_are_not_finite():
    losses = falling(2.0, 0.3, 60)
    plain = forecast(losses, 600, constant=CONSTANT)
    skipped = forecast([*losses[:9], math.inf, *losses[10:30], math.nan, *losses[31:]], 600,
                       constant=CONSTANT)  # fmt: skip
    assert skipped.value == pytest.approx(plain.value, rel=0.1)
    dead = forecast([*losses, math.nan], 600, constant=CONSTANT)
    assert dead.low == dead.value == dead.high == math.inf
    assert "not finite after 61 steps" in dead.how


def test_steps_that_are_done_are_measured():
    losses = falling(2.0, 0.3, 400)
    seen = forecast(losses, 400, constant=CONSTANT)
    last = losses[380:]
    assert seen.value == pytest.approx(sum(last) / 20)
    assert seen.low < seen.value < seen.high
    assert seen.how == "measured"
    assert forecast(losses, 100, constant=CONSTANT).value == pytest.approx(sum(losses[95:100]) / 5)
    gap = [*losses[:95], *[math.nan] * 5, *losses[100:]]
    assert forecast(gap, 100, constant=CONSTANT).value == math.inf
    assert (window_of(400), window_of(10)) == (20, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"planned": 0}, "1 step or more"),
        ({"risk": 1.0}, "a risk between 0 and 1"),
        ({"constant": 0.0}, "above the floor"),
        ({"constant": math.inf}, "above the floor"),
        ({"losses": [1.0] * 7}, "at least 8 finite losses, got 7 of 7"),
    ],
)
def test_refusals(options, says, as_users_see_it):
    given_ = {"losses": [1.0] * 30, "planned": 100, "constant": CONSTANT, **options}
    with pytest.raises(Refusal, match=says):
        forecast(given_.pop("losses"), given_.pop("planned"), **given_)


def test_a_model_is_written_and_read(tmp_path):
    file = tmp_path / "again.json"
    default_model().save(file)
    assert ForecastModel.read(file) == default_model()


def test_another_model_may_foretell():
    still = ForecastModel((0.0,) * 7, (1.0,) + (0.0,) * 4, (2.0,) + (0.0,) * 4, (-1.0, 0.0, 1.0), 1)
    told = forecast([CONSTANT] * 20, 100, constant=CONSTANT, by=still, risk=1e-9)
    ends = [CONSTANT * math.exp(x) for x in (-1.0, 0.0, 2.0)]
    assert (told.low, told.value, told.high) == pytest.approx(ends)


def test_intervals_held_nine_ends_of_ten_on_curves_of_other_designs():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if int(r["seed"]) >= HELD_OUT]
    held = [float(r["low"]) <= float(r["reached"]) <= float(r["high"]) for r in rows]
    assert len({r["seed"] for r in rows}) > 150
    assert {"transformer", "residual-conv"} <= {r["family"] for r in rows}
    assert sum(held) / len(held) >= 0.9
    off = lambda name: sorted(
        abs(math.log(float(r[name]) / float(r["reached"])))
        for r in rows
        if 0 < float(r["reached"]) < math.inf
    )
    median = lambda values: values[len(values) // 2]
    assert median(off("value")) < 0.6 * median(off("last"))


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

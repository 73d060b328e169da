"""Alarms on the course of several quantities."""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import fresh

from sigmascope.watching.alarms.rules import LATELY, RULES
from sigmascope.watching.alarms.tracks import CALM, YOUNG, LossTrack, Tracks
from sigmascope.watching.sinks import LOSS, OPTIMIZER, WHOLE, Column
from tests.sampling import some

BY_NAME = {rule.name: rule for rule in RULES}


def fed(rows, losses=()):
    """Looks as `{quantity: {site: value}}`, one after the other."""
    tracks = Tracks()
    for loss in losses:
        tracks.loss.add(loss)
    for step, row in enumerate(rows, 1):
        tracks.add(step, [Column(q, [*sites], [*sites.values()]) for q, sites in row.items()])
    return tracks


def test_the_first_place_that_is_not_finite_is_named():
    rows = [{"mean square": {"a": 1.0, "b": math.nan}, "gradient norm": {"a": math.nan}}]
    sign = BY_NAME["non-finite"].look(7, fed(rows))
    assert sign.sure
    assert sign.site == "b"
    assert "step 7" in sign.says
    assert BY_NAME["non-finite"].look(7, fed([{"mean square": {"a": 1.0}}])).calm


def test_the_step_of_an_overflow_is_foretold():
    growth = 2.0
    rows = [{"gradient norm": {"a": math.exp(growth * k)}} for k in range(8)]
    sign = BY_NAME["overflow-ahead"].look(8, fed(rows))
    exact = 1 + math.log(3.4e38) / growth
    assert sign.sure
    assert abs(int(sign.says.split("step ")[1].split()[0]) - exact) <= 1


def test_growth_while_the_loss_falls_is_learning_and_weights_that_grow_so_are_not():
    falling = [1.0 - 0.01 * k for k in range(60)]
    rows = [{"gradient norm": {"a": math.exp(2 * k)}} for k in range(20)]
    assert not BY_NAME["overflow-ahead"].look(20, fed(rows, falling)).sure
    weights = [{"Frobenius norm": {"a": math.exp(2 * max(k - 12, 0))}} for k in range(20)]
    assert BY_NAME["overflow-ahead"].look(20, fed(weights, falling)).sure


def test_a_spike_names_the_layer_that_moved_first():
    calm = [{"gradient norm": {"a": 1.0, "b": 1.0}}] * 20
    early, late = {"gradient norm": {"a": 1.0, "b": 9.0}}, {"gradient norm": {"a": 99.0, "b": 9.0}}
    tracks = fed([*calm, early, late], [1.0] * 60 + [9.0] * 4)
    sign = BY_NAME["loss-spike"].look(22, tracks)
    assert sign.sure
    assert sign.site == "b"
    assert "moved first, at step 21" in sign.says


def test_what_moved_long_before_a_spike_has_nothing_to_do_with_it():
    drifted = [{"gradient norm": {"a": 1.0}}] * 20 + [{"gradient norm": {"a": 99.0}}] * 2
    tracks = fed(drifted, [1.0] * 60 + [9.0] * 4)
    rose = tracks.loss.risen
    assert "at step 21" in BY_NAME["loss-spike"].look(21 + rose + LATELY, tracks).says
    late = BY_NAME["loss-spike"].look(22 + rose + LATELY, tracks)
    assert "moved first" not in late.says
    assert late.site == LOSS


def test_units_that_die_are_named_before_what_follows_from_it():
    row = {"gradient norm": {"a": 1.0, "b": 1.0}, "dead units": {"a": 0.0, "b": 0.0}}
    died = {"gradient norm": {"a": 99.0, "b": 9.0}, "dead units": {"a": 0.0, "b": 0.9}}
    sign = BY_NAME["loss-spike"].look(21, fed([row] * 20 + [died], [1.0] * 60 + [9.0] * 4))
    assert sign.site == "b"
    assert "90% of the units at b are dead" in sign.says


@given(st.integers(16, 300), st.floats(0.3, 3.0), st.floats(0.01, 0.08))
def test_what_is_usual_is_the_loss_just_before_the_spike(steps, start, speed):
    losses = [start * math.exp(-speed * k) + 0.2 for k in range(steps)]
    tracks = fed([], [*losses, *[50.0 * start] * 3])
    says = BY_NAME["loss-spike"].look(steps + 3, tracks).says
    told = float(says.split("usually ")[1].rstrip(".").split(";")[0])
    assert losses[-1] * 0.99 <= told <= losses[-min(CALM, steps)] * 1.01


def noisy(generator, level, spread, count):
    """Losses of batches: never below zero, and some of them far above."""
    noise = torch.randn(count, generator=generator).exp()
    return (level * (1 + spread * (noise - noise.mean()))).clamp_min(0).tolist()


@pytest.mark.parametrize("spread", [0.05, 0.3])
@pytest.mark.parametrize("apart", [1, 4, 8])
@pytest.mark.parametrize("final", [0.3, 1.0, 2.3])
def test_learning_that_is_undone_slowly_is_an_alarm_within_a_tenth(spread, apart, final):
    rung = []
    for seed in range(5):
        g, loss = fresh(seed), LossTrack()
        for at in range(0, 3000, apart):
            level = 2.3 * math.exp(-min(at, 1500) / 200)
            level += final * max(at - 1500, 0) / 1500
            drawn = 1 + spread * torch.randn((), generator=g)
            loss.add(level * float(drawn.clamp_min(0.0)), apart)
            assert at > 1500 or not loss.drifts
            if loss.drifts:
                rung.append(at - 1500)
                break
    assert len(rung) == 5
    tenth = 150 + 8 * apart
    assert max(rung) <= tenth if final > 0.3 else max(rung) <= 4 * tenth


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("apart", [1, 8])
@pytest.mark.parametrize("floor", some([1e-4, 0.01, 0.8]))
def test_training_that_goes_well_has_bursts_and_does_not_drift(spread, apart, floor):
    for seed in range(10):
        g, loss = fresh(seed), LossTrack()
        bursts = torch.rand(4000, generator=g) < 0.02
        for at, x in enumerate(noisy(g, 1.0, spread, 4000)):
            level = floor + 2.3 * math.exp(-at / 300)
            loss.add(level * x * (20 if bursts[at] else 1), apart)
            assert not loss.drifts, (seed, at)


def test_a_cycle_of_the_rate_that_begins_anew_undoes_nothing():
    tracks = fed([])
    for at in range(900):
        again = at % 450 / 450
        tracks.rate.add(0.05 * (1 + math.cos(math.pi * again)) + 1e-4)
        tracks.loss.add(2.3 * math.exp(-at / 100) + 0.3 * (1 - again) * (at > 50))
        assert at < 60 or not BY_NAME["loss-drift"].look(at, tracks).sure


def test_a_spike_with_no_layer_is_at_the_loss():
    sign = BY_NAME["loss-spike"].look(22, fed([], [1.0] * 60 + [9.0] * 4))
    assert sign.site == LOSS


@pytest.mark.parametrize(("value", "losses", "sure"), [
    (0.9, [1.0] * 60 + [3.0] * 3, False),  # below the edge
    (1.3, [1.0] * 60, False),  # training hovers there
    (1.3, [1.0] * 60 + [3.0] * 3, True),  # and here it diverges
    (2.5, [1.0] * 60, True),
])  # fmt: skip
def test_the_edge_of_stability_is_told_from_divergence(value, losses, sure):
    rows = [{"rate times sharpness": {WHOLE: value}}] * 3
    assert BY_NAME["rate-beyond-edge"].look(3, fed(rows, losses)).sure is sure


def test_plasticity_is_lost_where_units_die_updates_shrink_and_the_loss_stays():
    def rows(dead, ratio):
        young = [{"dead units": {"a": 0.0}, "update ratio": {"a": 1e-2}}] * 10
        return [*young, *[{"dead units": {"a": dead}, "update ratio": {"a": ratio}}] * 10]

    rule, stuck = BY_NAME["plasticity-loss"], [1.0] * 200
    assert rule.look(20, fed(rows(0.4, 1e-4), stuck)).sure
    assert not rule.look(20, fed(rows(0.05, 1e-4), stuck)).sure
    assert not rule.look(20, fed(rows(0.4, 5e-3), stuck)).sure
    tenth = 1e-3
    assert rule.look(20, fed(rows(0.4, tenth * (1 - 1e-6)), stuck)).sure
    assert not rule.look(20, fed(rows(0.4, tenth * (1 + 1e-6)), stuck)).sure
    assert rule.look(20, fed(rows(0.4, 1e-4), stuck[: 5 * YOUNG])) is None  # it is too early
    assert rule.look(20, fed(rows(0.4, 1e-4), stuck[: 5 * YOUNG + 1])).sure
    falling = [2.0 - 0.009 * k for k in range(200)]
    assert not rule.look(20, fed(rows(0.4, 1e-4), falling)).sure


def test_a_jump_of_the_rate_says_from_where():
    tracks = Tracks()
    for _ in range(50):
        tracks.rate.add(0.01)
    tracks.rate.add(1.0)
    sign = BY_NAME["rate-jump"].look(51, tracks)
    assert sign.sure
    assert "1, and was 0.01 at most" in sign.says


def test_updates_that_stop_are_told_from_a_rate_that_falls_to_its_end():
    def rows(update, rate):
        usual = [{"update norm": {"a": 1.0}, "rate": {OPTIMIZER: 0.1}}] * 20
        return [*usual, {"update norm": {"a": update}, "rate": {OPTIMIZER: rate}}]

    rule = BY_NAME["frozen-weights"]
    assert rule.look(21, fed(rows(1e-5, 0.1))).sure
    assert "by 1/1e+05 of the usual" in rule.look(21, fed(rows(1e-5, 0.1))).says
    assert rule.look(21, fed(rows(0.0, 0.1))).says == "a: a step no longer changes the weights."
    assert not rule.look(21, fed(rows(1e-5, 1e-6))).sure
    assert not rule.look(21, fed(rows(1e-2, 0.1))).sure
    fitted = [2.0 * 0.9**k for k in range(60)]
    assert not rule.look(21, fed(rows(1e-5, 0.1), fitted)).sure
    dropped = fed(rows(0.0, 0.0))
    dropped.rate.add(0.1)
    dropped.rate.add(0.0)
    assert rule.look(21, dropped).sure


def test_dimensions_that_changed_and_stay_have_settled():
    def rows(values):
        return [{"centred participation ratio": {"a": v}} for v in values]

    rule = BY_NAME["dimension-settled"]
    assert rule.look(40, fed(rows([20.0] * 8 + [5.0] * 40))).sure
    falling = [20.0 * 0.93**k for k in range(20)]
    assert rule.look(40, fed(rows([20.0] * 8 + falling + falling[-1:] * 12))).sure
    assert not rule.look(40, fed(rows([20.0] * 8 + falling + falling[-1:] * 6))).sure
    assert not rule.look(40, fed(rows([20.0] * 48))).sure  # nothing was learned of it
    assert not rule.look(40, fed(rows([20.0 * 0.9**k for k in range(48)]))).sure
    assert rule.look(40, fed(rows([20.0] * 5))) is None


def lopsided(*rows):
    names = ("layer imbalance", "imbalance moved", "imbalance moved by decay")
    looks = [dict(zip(names, ({"a ~ b": v} for v in row), strict=True)) for row in rows]
    return BY_NAME["decay-at-odds"].look(len(rows), fed(looks))


def test_decay_of_one_side_is_told_by_what_it_explains():
    sign = lopsided((0.0, 0.0, 0.0), (-0.9, -0.5, -0.4))
    assert sign.sure
    assert sign.says.startswith("a: decay shrinks these weights faster than those of b")
    assert "1 to 19" in sign.says
    assert "explains 80%" in sign.says
    assert lopsided((0.9, 0.5, 0.4)).says.startswith("b: ")


@pytest.mark.parametrize("row", [
    (0.7, 0.5, 0.5),  # not far enough
    (0.9, 0.28, 0.28),  # it was there at first
])  # fmt: skip
def test_what_is_nearly_there_is_neither(row):
    sign = lopsided(row)
    assert not sign.sure
    assert not sign.calm


@pytest.mark.parametrize("row", [
    (0.9, 0.5, 0.2), (0.9, 0.5, -0.5), (0.9, 0.3, 0.7),  # of other causes
    (0.9, -0.5, -0.5),  # decay balances them
    (0.5, 0.5, 0.5), (0.95, 0.1, 0.1),
])  # fmt: skip
def test_other_imbalance_is_no_matter_of_decay(row):
    assert lopsided(row).calm


def test_without_layers_that_decay_apart_nothing_is_said():
    assert BY_NAME["decay-at-odds"].look(1, Tracks()) is None

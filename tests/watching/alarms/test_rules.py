"""Every alarm, and when it begins and ends."""

import math
from itertools import chain

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import fresh

from sigmascope.core.quantities import quantity
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.alarms.rules import CALM, LATELY, RULES, UNSURE, AlarmRule, Deviation, Sign
from sigmascope.watching.alarms.tracks import (
    CALM as CALM_LOSSES,
    YOUNG,
    LossTrack,
    Tracks,
    TrainedMatrix,
)
from sigmascope.watching.sinks import LOSS, OPTIMIZER, WHOLE, Column
from tests.sampling import some


def test_names_are_their_own_and_every_alarm_says_what_to_do_and_why():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.remedies
        assert rule.source
        assert all(r.endswith(".") for r in rule.remedies)


def test_every_quantity_that_is_read_is_one_of_watching():
    for rule in RULES:
        assert all("watch" in quantity(name).views for name in rule.reads)


def test_every_change_asks_for_something_and_can_be_said():
    for rule in RULES:
        if isinstance(rule, Deviation):
            assert (rule.usual, rule.first, rule.beyond) != (None, None, None)
            assert rule.quantity in rule.reads
            rule.words.format(value=1, times=1, first=1, from_first=1)


def rule(**settings):
    name = settings.get("quantity", "gradient norm")
    return Deviation("x", "it is far", "warning", frozenset({name}), "s", (), quantity=name,
                  **{k: v for k, v in settings.items() if k != "quantity"})  # fmt: skip


def seen(values, name="gradient norm", sites=("a",), losses=()):
    """Looks at one quantity, of one value at all places or of one at each."""
    rows = [value if isinstance(value, list) else [value] * len(sites) for value in values]
    return fed([{name: dict(zip(sites, row, strict=True))} for row in rows], losses)


USUAL = [1.0] * 20


def test_a_jump_of_what_is_usual_is_sharp():
    up = rule(up=True, usual=8.0)
    assert up.look(1, seen([*USUAL, 8.0 * (1 + 1e-6)])).sure
    assert not up.look(1, seen([*USUAL, 8.0 * (1 - 1e-6)])).sure


def test_what_has_come_half_the_way_is_neither_sure_nor_calm():
    up = rule(up=True, usual=100.0)
    near = up.look(1, seen([*USUAL, 20.0]))
    assert (near.sure, near.calm) == (False, False)
    assert up.look(1, seen([*USUAL, 5.0])).calm


def test_falls_are_told_from_rises():
    down = rule(up=False, usual=8.0)
    assert down.look(1, seen([*USUAL, 0.1])).sure
    assert not down.look(1, seen([*USUAL, 10.0])).sure


def test_a_value_must_be_beyond_its_bound_too():
    dying = {"quantity": "dead units", "up": True, "first": 0.25, "beyond": 0.5, "alone": True}
    assert rule(**dying).look(1, seen([0.1] * 20 + [0.6], "dead units")).sure
    assert not rule(**dying).look(1, seen([0.1] * 20 + [0.45], "dead units")).sure
    assert not rule(**dying).look(1, seen([0.4] * 20 + [0.6], "dead units")).sure


def test_while_the_loss_does_not_rise_it_is_no_alarm_unless_it_is_one_alone():
    falling = [1.0 - 0.01 * k for k in range(60)]
    jump = [*USUAL, 100.0]
    assert not rule(usual=8.0).look(1, seen(jump, losses=falling)).sure
    assert rule(usual=8.0, alone=True).look(1, seen(jump, losses=falling)).sure
    assert rule(usual=8.0).look(1, seen(jump, losses=[*falling, 9.0, 9.0, 9.0])).sure


def test_the_worst_place_is_named_with_the_others_counted():
    tracks = seen([[1.0, 1.0]] * 20 + [[10.0, 90.0]], sites=("a", "b"))
    sign = rule(usual=8.0, words="{times} times").look(1, tracks)
    assert sign.site == "b"
    assert sign.says == "b: 90 times (and at 1 other places)."


@pytest.mark.parametrize("up", [True, False])
def test_how_far_it_is_is_counted_from_what_is_usual_and_from_what_was_at_first(up):
    """Of sizes by what factor, of shares by what difference."""
    words = "{times},{from_first},{first},{value}"
    way = 1 if up else -1

    def told(values, name, **asked):
        sign = rule(quantity=name, up=up, words=words, **asked).look(1, seen(values, name))
        return [float(part) for part in sign.says.removeprefix("a: ").removesuffix(".").split(",")]

    sizes = [7.0 * 4.0**way] * 6 + [7.0] * 60 + [7.0 * 100.0**way]
    times, from_first, first, value = told(sizes, "gradient norm", usual=8.0)
    assert (times, value) == pytest.approx((100, sizes[-1]), rel=0.05)
    assert from_first == pytest.approx((value / first) ** way, rel=0.1)
    assert from_first < 90
    shares = [0.5 + 0.1 * way] * 6 + [0.5] * 60 + [0.5 + 0.4 * way]
    times, from_first, first, value = told(shares, "dead units", usual=0.2)
    assert (times, value) == pytest.approx((0.4, shares[-1]), abs=0.01)
    assert from_first == pytest.approx((value - first) * way, abs=0.01)
    assert from_first < 0.35


def test_before_there_are_readings_it_is_silent():
    assert rule(usual=8.0).look(1, Tracks()) is None
    assert rule(usual=8.0).look(1, seen([1.0] * 3)) is None


@pytest.mark.parametrize("first", [True, False])
def test_only_the_first_layer_counts_where_inputs_are_meant(first):
    tracks = seen([[1.0, 1.0]] * 20 + [[1.0, 90.0]], sites=("a", "b"))
    assert rule(usual=8.0, first_site=first).look(1, tracks).sure is not first


def test_sharp_attention_is_a_collapse_only_where_nothing_is_learned_or_the_loss_rises():
    (collapse,) = [r for r in RULES if r.name == "attention-collapse"]
    sharp = [0.9] * 10 + [0.05] * 10
    falling = [3.5 * 0.98**k for k in range(200)]
    found = {
        name: collapse.look(1, seen(sharp, "attention entropy", losses=losses)).sure
        for name, losses in {
            "falls": falling,
            "learned": [*falling, *[falling[-1]] * 200],
            "rises": [*falling, *[3.0] * 5],
            "nothing learned": [3.5] * 200,
            "unknown": [],
        }.items()
    }
    assert found == {"falls": False, "learned": False, "rises": True, "nothing learned": True,
                     "unknown": True}  # fmt: skip


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
    assert "step 1" in sign.says
    assert BY_NAME["non-finite"].look(7, fed([{"mean square": {"a": 1.0}}])).calm


def test_what_is_not_finite_is_told_at_the_look_that_reads_it():
    bad = [Column("gradient norm", ["a"], [math.nan])]
    (told,) = Alarms([BY_NAME["non-finite"]]).look(3, bad)
    assert (told.name, told.site) == ("non-finite", "a")


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


@pytest.mark.parametrize("least", range(2, 7))
def test_what_grows_from_zero_begins_to_learn(least):
    """As what stands before a weight of zeros has no gradient at first."""
    rows = [{"gradient norm": {"a": 0.0}}] * 3
    rows += [{"gradient norm": {"a": 1e-5 * 1.3**k}} for k in range(1, 8)]
    for count in range(1, len(rows)):
        assert BY_NAME["overflow-ahead"].look(count, fed(rows[:count])).calm
    track = fed(rows[: 3 + least]).one("gradient norm", "a")
    assert track.growth(least + 1) is None
    assert track.growth(least)[1] == pytest.approx((least - 1) * math.log(1.3))


def test_only_what_is_there_and_not_what_is_foretold_is_an_error():
    assert {rule.name for rule in RULES if rule.severity == "error"} == {"non-finite"}


@pytest.mark.parametrize(
    "name",
    [
        "gradient-jump",
        "signal-jump",
        "signal-loss",
        "large-updates",
        "growing-weights",
        "statistics-drift",
        "overflow-ahead",
    ],
)
@pytest.mark.parametrize("losses", [0, 40])
def test_without_a_loss_what_needs_a_rising_one_is_a_note_that_asks_for_it(name, losses):
    rule = BY_NAME[name]
    quantity = "gradient norm" if name == "overflow-ahead" else min(rule.reads)
    factor = 1e-3 if name == "signal-loss" else 1e3
    grown = [0.01 * 10**k for k in range(1, 7)] if name == "overflow-ahead" else [0.01 * factor] * 6
    rows = [0.01] * 20 + grown
    alarms, found = Alarms([rule]), []
    alarms.hear([], [1.0] * losses)
    for step, value in enumerate(rows, 1):
        alarms.hear([], [3.0] * (losses > 0 and step > 20))
        found += alarms.look(step, [Column(quantity, ["a"], [value])])
    (told,) = found
    assert told.severity == ("warning" if losses else "note")
    assert ("watch.step(loss)" in told.says) is (not losses)


@pytest.mark.parametrize("name", ["growing-weights", "decaying-weights"])
def test_slopes_and_gains_may_go_where_they_like(name):
    """The slope of a `PReLU` goes through zero, and no decay is at work."""
    factor = 100.0 if name == "growing-weights" else 0.01
    rows = [[1.0, 1.0]] * 20 + [[1.0, factor]] * 6
    for vectors, sure in (((), True), (("b",), False), (("a",), True)):
        tracks = Tracks(vectors=vectors)
        for step, row in enumerate(rows, 1):
            tracks.add(step, [Column("Frobenius norm", ["a", "b"], row)])
        assert BY_NAME[name].look(26, tracks).sure is sure


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
    assert losses[-1] * 0.99 <= told <= losses[-min(CALM_LOSSES, steps)] * 1.01


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
    still = [*rows(0.0, 0.1), *rows(0.0, 0.1)[-1:] * 2]
    assert not rule.look(22, fed(still[:-1])).sure
    assert rule.look(23, fed(still)).says == "a: a step no longer changes the weights."
    both = [{"update norm": {**r["update norm"], "b": 2 * r["update norm"]["a"]}} for r in still]
    assert rule.look(23, fed(both)).says.endswith("weights (and those of 1 other places).")
    assert not rule.look(21, fed(rows(1e-5, 1e-6))).sure
    assert not rule.look(21, fed(rows(1e-2, 0.1))).sure
    fitted = [2.0 * 0.9**k for k in range(60)]
    assert not rule.look(21, fed(rows(1e-5, 0.1), fitted)).sure
    dropped = fed(rows(0.0, 0.0))
    dropped.rate.add(0.1)
    dropped.rate.add(0.0)
    assert rule.look(21, dropped).sure


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_parts_that_sit_out_some_of_the_steps_have_not_stopped(share):
    """As experts without an input, layers that are dropped, heads of other tasks."""
    rule = BY_NAME["frozen-weights"]
    draw, tracks = fresh(0), Tracks()
    for step in range(1, 200):
        out = float(torch.rand((), generator=draw)) < share
        gradients = {"b": 1.0} if out else {"a": 1.0, "b": 1.0}
        tracks.add(step, [Column("gradient norm", [*gradients], [*gradients.values()])])
        tracks.add(step, [Column("update norm", ["a", "b"], [0.0 if out else 0.1, 0.1])])
        assert not rule.look(step, tracks).sure
    for step in range(200, 232):
        tracks.add(step, [Column("gradient norm", ["b"], [1.0])])
        tracks.add(step, [Column("update norm", ["a", "b"], [0.0, 0.1])])
    sign = rule.look(231, tracks)
    assert sign.sure
    assert sign.says == "a: a step no longer changes the weights, for no gradient comes to them."


def test_of_zero_no_share_is_told():
    zero = seen([1.0] * 12 + [0.0], "mean square", losses=[1.0] * 40 + [5.0] * 4)
    assert BY_NAME["signal-loss"].look(13, zero).says == "a: what the layer reads is zero."
    zero = seen([1.0] * 12 + [0.0], "relative variation")
    assert "by 0 of their size" in BY_NAME["rank-collapse"].look(13, zero).says


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
    assert lopsided((0.8, 0.3, 0.15)).sure  # each just enough


@pytest.mark.parametrize(("row", "calm"), [
    ((0.7, 0.5, 0.5), False),  # not far enough
    ((0.9, 0.28, 0.28), False),  # it was there at first
    ((0.9, 0.5, 0.2), True), ((0.9, 0.5, -0.5), True), ((0.9, 0.3, 0.7), True),  # other causes
    ((0.9, -0.5, -0.5), True),  # decay balances them
    ((0.5, 0.5, 0.5), True), ((0.95, 0.1, 0.1), True),
])  # fmt: skip
def test_what_is_nearly_there_is_neither_and_other_imbalance_is_no_matter_of_decay(row, calm):
    sign = lopsided(row)
    assert (sign.sure, sign.calm) == (False, calm)
    assert lopsided() is None  # no layers that decay apart


SURE = Sign(True, False, "a", "It is there.", (("dead units", "a", ""),))


class Said(AlarmRule):
    """A rule that says what it is told to, one after the other."""

    def look(self, step, tracks):
        return SIGNS[step]


SIGNS = {}


def heard(*signs, read="dead units"):
    """What is found at each look."""
    SIGNS.clear()
    SIGNS.update(enumerate(signs, 1))
    reads = frozenset({"dead units"})
    alarms = Alarms([Said("x", "it is there", "warning", reads, "s", ("Do.",), 2, 3)])
    return [alarms.look(step, [Column(read, ["a"], [0.5])]) for step in SIGNS], alarms


@pytest.mark.parametrize(("signs", "names"), [
    ([SURE, SURE, SURE, CALM, CALM, CALM, CALM], [[], ["x"], [], [], [], ["x-over"], []]),
    ([SURE, UNSURE, SURE, CALM, CALM, UNSURE, CALM], [[], [], ["x"], [], [], [], ["x-over"]]),
    ([SURE, SURE, CALM, SURE, CALM, SURE, CALM], [[], ["x"], [], [], [], [], []]),  # flicker
    ([SURE, CALM, SURE, CALM], [[], [], [], []]),  # the count starts anew
])  # fmt: skip
def test_an_alarm_needs_some_looks_to_begin_and_some_calm_ones_to_end(signs, names):
    found, alarms = heard(*signs)
    assert [[f.name for f in each] for each in found] == names
    told = [*chain(*names)]
    assert len(alarms.in_force) == told.count("x") - told.count("x-over")


def test_an_alarm_has_evidence_and_what_to_do_and_its_end_says_when_it_began():
    found, _ = heard(SURE, SURE, CALM, CALM, CALM)
    (alarm,), (end,) = found[1], found[4]
    assert alarm.evidence[0].estimate.value == 0.5
    assert (alarm.site, alarm.source, alarm.remedies) == ("a", "s", ("Do.",))
    assert end.severity == "note"
    assert end.says.startswith("Over at step 5: what began at step 2 at a")


def test_a_rule_is_asked_only_where_what_it_reads_was_read():
    assert heard(SURE, SURE, read="mean square")[0] == [[], []]


@pytest.mark.parametrize(("signs", "waits"), [([SURE], True), ([SURE, SURE], False), ([], False)])
def test_a_rule_that_was_sure_and_has_not_rung_wants_to_look_again(signs, waits):
    assert heard(*signs)[1].waiting == waits


@pytest.mark.parametrize(
    ("up", "value", "calm"),
    [(True, 0.79, True), (True, 0.81, False), (False, 1.26, True), (False, 1.24, False)],
)
def test_near_a_bound_it_is_not_calm(up, value, calm):
    bound = rule(quantity="update ratio", up=up, beyond=1.0, alone=True)
    sign = bound.look(1, seen([value] * 20, "update ratio"))
    assert (sign.sure, sign.calm) == (False, calm)


# ------------------------------------------------------------------------------
# Steps that are orthogonal, or should be.

MUON, NOISE = "muon-not-orthogonal", "muon-on-embedding"


def moved(ranks, readings=3, losses=(), **matrices):
    """Notes on matrices whose steps have these stable ranks."""
    alarms = Alarms([r for r in RULES if r.name in (MUON, NOISE)], matrices)
    alarms.hear([], losses)
    found = []
    for step in range(readings):
        known = [(s, x) for s, x in ranks.items()]
        column = Column("update stable rank", *zip(*known, strict=True), form="matrix")
        found += alarms.look(step, [column])
    return {f.name: f for f in found if not f.name.endswith("-over")}


def matrix(role="", meant=True, steps=5, side=64, group=0):
    return TrainedMatrix(side, 2 * side, role, group, meant, steps)


@pytest.mark.parametrize(
    ("of", "rank", "there"),
    [
        (matrix(), 3.19, True),
        (matrix(), 3.21, False),
        (matrix(steps=2), 9.59, True),
        (matrix(steps=2), 9.61, False),
        (matrix(steps=None), 3.19, True),
        (matrix(meant=False), 1.0, False),
        (matrix(side=16), 1.0, False),
    ],
)
def test_muon_that_moves_a_matrix_in_few_directions_is_a_note(of, rank, there):
    found = moved({"a": rank}, a=of)
    assert (MUON in found) == there
    assert NOISE not in found
    if there:
        assert found[MUON].severity == "note"
        assert ("2 of the usual 5" in found[MUON].says) == (of.steps == 2)
        assert found[MUON].evidence


def test_few_directions_are_no_matter_once_or_where_all_is_learned():
    assert not moved({"a": 1.0}, readings=2, a=matrix())
    assert not moved({"a": 1.0}, losses=[1.0] * 20 + [1e-3] * 60, a=matrix())
    assert moved({"a": 1.0}, losses=[1.0] * 80, a=matrix())


@pytest.mark.parametrize("role", ["embedding", "readout"])
def test_muon_that_moves_an_embedding_in_all_directions_is_a_note(role):
    hidden, own = matrix(), matrix(role)
    assert NOISE in moved({"a": 40.0, "e": 30.0}, a=hidden, e=own)
    assert NOISE not in moved({"a": 40.0, "e": 5.0}, a=hidden, e=own)  # stepped otherwise inside
    assert NOISE not in moved({"a": 40.0, "e": 24.0}, a=hidden, e=matrix(role, False, group=1))


def test_steps_flatter_than_noise_are_orthogonal_whatever_the_optimizer_is_called():
    hidden, own = matrix(meant=False), matrix("embedding", meant=False)
    noise = hidden.of_noise
    assert NOISE in moved({"a": 1.21 * noise, "e": 15.0}, a=hidden, e=own)
    assert NOISE not in moved({"a": 1.19 * noise, "e": 15.0}, a=hidden, e=own)


def test_one_row_that_muon_trains_is_a_note_of_its_own():
    vector = TrainedMatrix(1, 64, "vector", 0, True, 5)
    found = moved({"a": 40.0}, readings=1, a=matrix(), v=vector)
    assert found[NOISE].site == "v"
    assert not found[NOISE].evidence


@pytest.mark.parametrize(
    ("after", "says"),
    [(1.0, "is as usual again."), (50.0, "has not gone back, and counts as usual by now.")],
)
def test_what_ends_is_said_to_be_as_usual_only_where_it_has_gone_back(after, says):
    rules = [rule(usual=8.0, alone=True)]
    alarms = Alarms(rules)
    for step, value in enumerate([1.0] * 20 + [50.0] * 5 + [after] * 60, 1):
        found = alarms.look(step, [Column("gradient norm", ["a"], [value])])
        if found and found[0].name == "x-over":
            break
    assert found[0].says.endswith(says)


def test_growth_that_ends_has_not_shrunk():
    alarms = Alarms([BY_NAME["overflow-ahead"]])
    said = []
    for step in range(1, 60):
        value = math.exp(2 * min(max(step - 12, 0), 10))
        said += alarms.look(step, [Column("Frobenius norm", ["a"], [value])])
    assert [a.says.split(" at a ")[-1] for a in said][1:] == ["no longer grows at every look."]


def test_a_loss_that_is_no_number_is_told_with_its_own_step():
    """A look is taken within a step of the optimizer, whose own loss is not handed in yet."""
    loss = [Column("loss", [LOSS], [math.nan], step=6)]
    (told,) = Alarms([BY_NAME["non-finite"]]).look(7, loss)
    assert told.says == "the loss is infinite or not a number at step 6."

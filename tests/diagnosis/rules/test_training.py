"""Rules on how a program trains speak from their thresholds on."""

import math

import pytest

from sigmascope.core.records import Estimate
from sigmascope.diagnosis.rules.outputs import reversed_loss
from sigmascope.diagnosis.rules.representations import unrelated_targets
from sigmascope.diagnosis.rules.training import (
    few_steps,
    large_batch,
    left_words,
    maximised_loss,
    other_optimizer,
    rate_too_high,
    rate_too_low,
    read_beside,
    strong_options,
    stuck,
    told_apart,
    trains,
    unusual_options,
)
from tests.diagnosis.readings import ABOVE, BELOW, fact, profile, reading, said

PLANNED, OTHER, BATCH = "as planned", "other optimizer", "smaller batch"


def runs(left, *others, fall=0.0, steps=200, planned=None):
    """Readings of the user's run and of others: (form, left, left of the user's by then)."""
    made = lambda name, value, form: reading(name, value, "(training)", "training", form)
    facts = [made("steps tried", steps, PLANNED)]
    facts.append(made("broke at step", 3, PLANNED) if left == math.inf
                 else made("loss left", left, PLANNED))  # fmt: skip
    fallen = Estimate.within(fall, 0.01)
    facts.append(made("last fall of the loss", fallen, PLANNED))
    if planned is not None:
        facts.append(made("planned steps", planned, PLANNED))
    for form, theirs, then in others:
        facts += [made("loss left", theirs, form), made("rate", 0.1, form)]
        facts += [] if then is None else [made("loss left by then", then, form)]
    return facts


@pytest.mark.parametrize(
    ("left", "theirs", "then", "fall", "severity"),
    [
        (0.95, 0.5, 1.0, 0.0, "warning"),
        (0.95 * BELOW, 0.5, 1.0, 0.0, None),  # it learns
        (2.0, 0.8 * BELOW, 1.2, 0.0, "warning"),
        (2.0, 0.8, 1.2, 0.0, None),  # the smaller rate learns nothing either
        (2.0, 0.7 * BELOW, 1.0, 0.0, "warning"),
        (2.0, 0.7, 1.0, 0.0, None),
        (2.0, 0.5, 1.0, 0.06 * ABOVE, None),  # on its way
        (2.0, 0.5, 1.0, 0.06 * BELOW, "warning"),
        (5.0, 0.5, 1.0, 0.5, "warning"),  # on its way back
        (5.0 * BELOW, 0.5, 1.0, 0.5, None),
        (5.0, 1.0 * BELOW, 9.0, 0.0, "warning"),  # the rate drives the loss up
        (5.0, 1.0 * ABOVE, 1.2, 0.0, None),
        (5.0 * BELOW, 0.9, 1.2, 0.0, None),
        (math.inf, 0.99, None, 0.0, "error"),  # the smaller one at least does not break
    ],
)
def test_a_rate_that_is_too_high(left, theirs, then, fall, severity):
    facts = runs(left, ("rate x 0.1", theirs, then), fall=fall)
    assert said(rate_too_high, *facts).get("rate-too-high") == severity
    assert said(rate_too_high, *runs(left, ("rate x 10", theirs, then), fall=fall)) == {}


@pytest.mark.parametrize("planned", [200, 201])
@pytest.mark.parametrize("fall", [0.0, 0.2])
@pytest.mark.parametrize("form", ["rate x 0.1", "rate x 10", OTHER, BATCH, "no weight decay"])
def test_what_no_rule_reads_changes_nothing_and_what_one_reads_may(form, fall, planned):
    rules = (rate_too_high, rate_too_low, few_steps, other_optimizer, large_batch, strong_options)
    changes = {}
    for left in (0.05, 0.3, 0.5, 0.7, 0.85, 0.97, 1.5, 9.0, math.inf):
        for good in (False, True):  # another run that is good already
            more = [("smaller batch" if form == OTHER else OTHER, 0.2, 1.0)] * good
            told = [
                [said(r, *runs(left, *more, *own, fall=fall, planned=planned)) for r in rules]
                for own in ([], [(form, 0.01, left)], [(form, math.inf, left)])
            ]
            changes.setdefault(left, []).append(told[0] != told[1] or told[0] != told[2])
    whole = planned == 200
    read = {x: read_beside(form, x, falling=fall > 0, whole=whole) for x in changes}
    assert not [x for x, changed in changes.items() if any(changed) and not read[x]]
    assert any(any(changed) for changed in changes.values())
    if form != "no weight decay":  # of which few programs have any
        assert not all(read.values())


@pytest.mark.parametrize(
    ("left", "planned", "severity"),
    [(1.0, 200, "warning"), (1.0 * BELOW, 200, None), (1.0, 201, None), (1.0, None, None)],
)
def test_a_loss_that_falls_and_is_above_a_constants_at_the_end(left, planned, severity):
    facts = runs(left, ("rate x 0.1", 0.5, 1.0), fall=0.2, planned=planned)
    assert said(rate_too_high, *facts).get("rate-too-high") == severity


@pytest.mark.parametrize(
    ("left", "theirs", "planned", "severity"),
    [
        (0.5, 0.3, 200, "warning"),
        (0.5 * BELOW, 0.3, 200, None),  # it trains
        (0.9, 0.3, 201, "note"),  # there is more to come
        (0.9, 0.3, None, "note"),
        (0.95, 0.3, None, "warning"),  # nothing moves, and nothing is foretold
        (0.95 * BELOW, 0.3, None, "note"),
        (0.9, 0.7 * 0.9, 200, None),
        (0.9, 0.7 * 0.9 * BELOW, 200, "warning"),
        (math.inf, 0.3, 200, None),
        (1.0, 0.9 * BELOW, 200, "warning"),  # it has not begun to learn, and the other has
        (1.0, 0.9, 200, None),
        (0.95 * BELOW, 0.8, 200, None),
    ],
)
def test_a_rate_that_is_too_low(left, theirs, planned, severity):
    facts = runs(left, ("rate x 10", theirs, left if left < 9 else None), planned=planned)
    assert said(rate_too_low, *facts).get("rate-too-low") == severity


@pytest.mark.parametrize(
    ("steps", "fall", "least", "severity"),
    [
        (30, 0.0, None, "warning"),
        (30, 0.0, 0.5, "warning"),
        (30, 0.0, 0.5 * BELOW, "note"),  # it may come to it
        (29, 0.0, None, "note"),
        (200, 0.2, None, "note"),
    ],
)
def test_a_rate_that_stalls_is_more_than_slow(steps, fall, least, severity):
    how = {"planned": 900, "steps": steps, "fall": fall}
    facts = runs(0.95, ("rate x 10", 0.3, 0.95), **how)
    if least is not None:
        end = Estimate(0.7, least, 0.9, "made up")
        facts.append(reading("loss left at the end", end, "(training)", "training", PLANNED))
    assert said(rate_too_low, *facts)["rate-too-low"] == severity


@pytest.mark.parametrize("side", ["lower", "higher"])
def test_the_usual_rate_counts_on_its_side(side):
    there = (f"usual rate, {side}", 0.3, 1.0)
    rule = {"lower": rate_too_high, "higher": rate_too_low}[side]
    other = {"lower": rate_too_low, "higher": rate_too_high}[side]
    assert said(rule, *runs(1.0, there, planned=200)) == {
        f"rate-too-{'high' if side == 'lower' else 'low'}": "warning"
    }
    assert said(other, *runs(1.0, there, planned=200)) == {}
    assert said(other_optimizer, *runs(1.0, there, (OTHER, 0.3, 1.0))) == {}


def test_a_rate_at_which_nothing_holds():
    broken = [reading("broke at step", 2, "(training)", "training", f"rate x {t}")
              for t in ("0.1", "0.01")]  # fmt: skip
    assert said(rate_too_high, *runs(math.inf, (OTHER, 0.9, None)), *broken) == {
        "rate-too-high": "error"
    }
    assert said(rate_too_high, *runs(math.inf), *broken) == {}


@pytest.mark.parametrize(
    ("left", "fall", "planned", "speaks"),
    [
        (0.6, 0.06 * ABOVE, 200, True),
        (1.0 * BELOW, 0.2, 200, True),
        (1.0, 0.2, 200, False),  # the best constant would do better: that is not on its way
        (0.6, 0.06 * BELOW, 200, False),
        (0.6, 0.2, 201, False),
        (0.6, 0.2, None, False),
        (0.5 * BELOW, 0.2, 200, False),
    ],
)
def test_a_plan_that_ends_too_soon(left, fall, planned, speaks):
    assert bool(said(few_steps, *runs(left, fall=fall, planned=planned))) is speaks


def test_another_optimizer():
    other = (OTHER, 0.4, 1.0)
    assert said(other_optimizer, *runs(0.9, other)) == {"other-optimizer": "warning"}
    assert said(other_optimizer, *runs(0.9, other, ("rate x 0.1", 0.7, 1.0))) == {}
    assert said(other_optimizer, *runs(0.9, (OTHER, 0.5 * ABOVE, 1.0))) == {}
    assert said(other_optimizer, *runs(0.8 * BELOW, other)) == {}
    assert said(other_optimizer, *runs(0.9, other, fall=0.2)) == {}


def test_batches_that_are_too_large():
    smaller = (BATCH, 0.3, 0.9)
    assert said(large_batch, *runs(0.9, smaller)) == {"large-batch": "warning"}
    assert said(large_batch, *runs(0.9, smaller, fall=0.2)) == {"large-batch": "note"}
    assert said(large_batch, *runs(0.4, smaller)) == {}
    assert said(large_batch, *runs(0.9, (BATCH, 0.3, 0.42))) == {}


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("no weight decay", "strong-weight-decay"),
        ("momentum 0.9", "strong-momentum"),
        ("no clipping", "strong-clipping"),
    ],
)
def test_options_that_are_too_strong(form, name):
    assert said(strong_options, *runs(0.9, (form, 0.3, 0.9))) == {name: "warning"}
    assert said(strong_options, *runs(0.3, (form, 0.1, 0.3))) == {name: "note"}
    assert said(strong_options, *runs(0.09, (form, 0.01, 0.09))) == {}
    assert said(strong_options, *runs(0.9, (form, 0.7, 0.9))) == {}


def test_settings_that_are_not_usual():
    eps = fact("unusual settings", "eps 1.0, usually 1e-08", "(training)")
    theirs = lambda left, *more: said(
        unusual_options, *runs(0.9, ("usual settings", left, 0.9), *more), eps
    )
    assert theirs(0.3) == {"unusual-settings": "warning"}
    assert theirs(0.8) == {}
    assert theirs(0.3, ("rate x 10", 0.21 * ABOVE, 0.9)) == {"unusual-settings": "warning"}
    assert theirs(0.3, ("rate x 10", 0.21 * BELOW, 0.9)) == {}  # they make up for it
    assert said(unusual_options, *runs(0.3, ("usual settings", 0.1, 0.3)), eps) == {
        "unusual-settings": "note"
    }
    (found,) = unusual_options(profile(*runs(0.9, ("usual settings", 0.3, 0.9)), eps))
    assert "usually 1e-08" in found.says


def test_a_loss_that_is_maximised_is_an_error_where_it_is_to_be_small():
    climbs = fact("maximises", site="(training)")
    taken = fact("taken by the loss", "any numbers")
    assert said(maximised_loss, *runs(1.0), climbs, taken) == {"maximised-loss": "error"}
    assert said(maximised_loss, *runs(BELOW), climbs, taken) == {}  # it learns all the same
    assert said(maximised_loss, *runs(1.0), taken) == {}
    assert said(maximised_loss, *runs(1.0), climbs) == {}  # of what compares nothing with targets
    assert said(maximised_loss, *runs(1.0), climbs, taken, fact("unbounded loss")) == {}
    turned = [reading("loss of right answers", 1.0), reading("loss of wrong answers", 0.0)]
    assert said(maximised_loss, *runs(1.0), climbs, taken, *turned) == {}
    assert said(reversed_loss, taken, *turned) == {"reversed-loss": "error"}
    assert said(reversed_loss, taken, *turned, climbs) == {}


def test_nothing_helps():
    assert said(stuck, *runs(0.95, ("rate x 0.1", 0.9, 1.0))) == {"stuck": "warning"}
    assert said(stuck, *runs(0.95 * BELOW)) == {}
    assert said(stuck, *runs(0.95, steps=29)) == {}
    assert said(stuck, *runs(0.95, steps=29, planned=29)) == {"stuck": "warning"}
    assert said(stuck, *runs(0.95, (OTHER, 0.3, 1.0))) == {}  # which has a rule of its own
    assert said(stuck, *runs(0.95, (OTHER, 0.6, 1.0))) == {"stuck": "warning"}


@pytest.mark.parametrize(
    ("chance", "planned", "found"),
    [(0.5, 29, "few-steps"), (0.5 * BELOW, 29, "stuck"), (0.5, None, None)],
)
def test_where_the_probe_learns_the_plan_is_short(chance, planned, found):
    fits = reading("probability of fitting", chance, "(model)", "setup")
    names = said(stuck, *runs(0.95, steps=29, planned=planned), fits)
    assert names == ({found: "warning"} if found else {})


@pytest.mark.parametrize(("chance", "blamed"), [(0.49, True), (0.5, False)])
def test_the_network_is_not_blamed_where_the_probe_learns(chance, blamed):
    fits = reading("probability of fitting", chance, "(model)", "setup")
    (found,) = stuck(profile(*runs(0.95), fits))
    assert ("what is trained is at fault" in found.says) is blamed


@pytest.mark.parametrize(
    ("others", "least", "same", "apart"),
    [
        (0.9 * BELOW, 0.0, 0.4, True),
        (0.9, 0.0, 0.4, False),
        (0.1, 0.0, 0.0005, False),  # a constant fits
        (0.1, -1.0, -0.5, True),
        (None, 0.0, 0.4, False),
    ],
)
def test_whether_targets_were_told_apart(others, least, same, apart):
    facts = [reading("least loss", least, "(loss)", "setup"),
             reading("least loss of a constant", same, "(loss)", "setup"),
             reading("loss of zeros", 0.6, "(loss)", "setup")]  # fmt: skip
    if others is not None:
        facts.append(reading("loss left on others", others, "(training)", "training", PLANNED))
    assert told_apart(profile(*facts)) is apart
    signal = reading("target signal", -0.2, "layer 0", "setup")
    assert (said(unrelated_targets, signal, *facts) == {}) is apart


def test_whether_it_trains():
    assert trains(profile(*runs(0.5 * BELOW)))
    assert not trains(profile(*runs(0.5)))
    assert not trains(profile())


@pytest.mark.parametrize("rule", [rate_too_high, rate_too_low, few_steps, other_optimizer, stuck])
def test_without_training_all_are_silent(rule):
    assert said(rule, reading("least loss", 1.0, "(loss)")) == {}


@pytest.mark.parametrize(("left", "words"), [(10 * BELOW, "1000% of"), (2.9e7, "2.9e+07 times")])
def test_what_is_left_is_a_share_or_many_times(left, words):
    assert left_words(left) == words

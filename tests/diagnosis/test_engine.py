"""What rules say together: findings stand under the deepest cause, as severe as is foretold."""

import pytest

from sigmascope import records
from sigmascope.diagnosis import judge, rules
from sigmascope.diagnosis.engine import grouped
from sigmascope.diagnosis.rules import KINDS, RULES
from sigmascope.records import Estimate, Finding, Kind, Profile
from tests.diagnosis.readings import BELOW, diagnosed, reading


@pytest.mark.parametrize(
    ("value", "high", "found"),
    [
        (0.5, 0.6, {"dead-units": "warning"}),
        (0.5 * BELOW, 0.5, {"dead-units": "warning", "no-progress": "warning"}),
        (0.05, 0.1, {"dead-units": "warning", "no-progress": "warning"}),
        (0.05, 0.1 * BELOW, {"dead-units": "error", "no-progress": "error"}),
    ],
)
def test_errors_stand_where_the_network_is_known_not_to_fit(value, high, found):
    chance = Estimate(value, 0.01, high, "told")
    trains = reading("probability of fitting", chance, "(model)", "setup")
    assert diagnosed(reading("dead units", 0.96), trains, count=1) == found


@pytest.mark.parametrize(("high", "severity"), [(0.5, "note"), (0.5 * BELOW, "warning")])
def test_no_progress_by_itself_is_told_as_surely_as_it_is_known(high, severity):
    chance = reading("probability of fitting", Estimate(0.4, 0.1, high, "told"), "(model)", "setup")
    assert diagnosed(chance) == {"no-progress": severity}


def test_errors_that_no_progress_takes_back_stand():
    trains = reading("probability of fitting", 0.9, "(model)", "setup")
    found = diagnosed(reading("variance out of reach", 0.6), trains, count=1)
    assert found == {"out-of-reach": "error"}


def made(name, severity="warning"):
    return Finding(name, "here", severity, (), "It is so.", "Somebody 2000", ())


def test_consequences_follow_their_cause_and_raise_it():
    found = grouped([
        made("loud-output"),
        made("exploding-signal", "error"),
        made("weight-scale"),
        made("frozen-layer"),
    ])  # fmt: skip
    assert [f.name for f in found] == [
        "weight-scale",
        "exploding-signal",
        "loud-output",
        "frozen-layer",
    ]
    assert [f.severity for f in found] == ["error", "error", "warning", "warning"]
    assert [f.follows for f in found] == ["", "weight-scale", "weight-scale", ""]


def test_without_the_cause_a_consequence_stands_alone():
    (one,) = grouped([made("exploding-signal", "error")])
    assert not one.follows


def test_causes_of_causes_are_followed_to_the_end():
    found = grouped([
        made("directional-gradient-vanishing", "error"),
        made("rank-collapse", "error"),
        made("sigmoid-stack"),
        made("unscaled-inputs"),
    ])  # fmt: skip
    assert found[0].name == "unscaled-inputs"
    assert found[0].severity == "error"
    assert {f.follows for f in found[1:]} <= {"unscaled-inputs", ""}


def test_no_progress_is_laid_to_the_likeliest_cause():
    found = grouped([made("no-progress", "error"), made("frozen-layer")])
    assert [(f.name, f.follows) for f in found] == [
        ("frozen-layer", ""),
        ("no-progress", "frozen-layer"),
    ]
    assert grouped([made("no-progress", "error")])[0].follows == ""


def test_another_optimizer_is_no_cause_beside_an_option_that_is_too_strong():
    found = grouped([made("other-optimizer"), made("strong-weight-decay")])
    assert [(f.name, f.follows) for f in found] == [
        ("strong-weight-decay", ""),
        ("other-optimizer", "strong-weight-decay"),
    ]


def test_a_cut_is_blamed_before_layers_without_activation():
    found = grouped([made("linear-layers"), made("no-gradient"), made("no-progress", "error")])
    assert [(f.name, f.severity) for f in found] == [
        ("no-gradient", "error"),
        ("no-progress", "error"),
        ("linear-layers", "warning"),
    ]


def test_nothing_brings_itself_in_a_circle():
    """Following causes ends, whatever is present."""
    found = grouped(made(kind.name) for kind in KINDS)
    assert len(found) == len(KINDS)
    assert all(f.follows != f.name for f in found)


def test_users_kinds_take_their_place():
    """A rule of the user's may bring what is found here."""
    mine = Kind("noisy-sensor", "a sensor is noisy", "ours", brings=(rules.data.UNSCALED_INPUTS,))

    @records.rule("setup", mine)
    def noisy_sensor(profile):
        yield mine.finding("(inputs)", "warning", (), "It is noisy.")

    at = reading("input size", 100.0, "(inputs)")
    found = judge(Profile((at,)), rules=(*RULES, noisy_sensor))
    assert [(f.name, f.follows) for f in found] == [
        ("noisy-sensor", ""),
        ("unscaled-inputs", "noisy-sensor"),
    ]


def test_the_group_with_the_worst_finding_comes_first():
    """Whatever its cause says of itself, and however deep the causes of others are."""
    found = grouped([
        made("alike-inputs"),
        made("exploding-signal", "error"),
        made("weight-scale"),
    ])  # fmt: skip
    assert [f.name for f in found] == ["weight-scale", "exploding-signal", "alike-inputs"]


def test_a_note_is_not_why_nothing_is_learned():
    note, no_progress = made("frozen-layer", "note"), made("no-progress", "warning")
    assert {f.name: (f.severity, f.follows) for f in grouped([note, no_progress])} == {
        "no-progress": ("warning", ""),
        "frozen-layer": ("note", ""),
    }


def test_answers_that_are_read_are_not_why_training_is_stuck():
    leak, stuck = made("later-inputs-seen", "error"), made("stuck")
    found = {f.name: f for f in grouped([leak, made("double-softmax"), stuck])}
    assert found["stuck"].follows == "double-softmax"
    assert grouped([leak, stuck])[1].follows == ""

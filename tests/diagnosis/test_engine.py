"""What rules say together: findings stand under the deepest cause, as severe as is foretold."""

import pytest

from sigmascope.core import records
from sigmascope.core.records import Estimate, Finding, Kind, Profile
from sigmascope.diagnosis import judge, rules
from sigmascope.diagnosis.engine import borne, grouped, unproven
from sigmascope.diagnosis.rules import KINDS, RULES
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (  # consequences follow their cause and raise it
            "loud-output, exploding-signal error, weight-scale, frozen-layer",
            "weight-scale error, exploding-signal error < weight-scale, "
            "loud-output warning < weight-scale, frozen-layer warning",
        ),
        # without the cause a consequence stands alone
        ("exploding-signal error", "exploding-signal error"),
        ("no-progress error", "no-progress error"),
        # no progress is laid to the likeliest cause, which a note is not
        (
            "no-progress error, frozen-layer",
            "frozen-layer error, no-progress error < frozen-layer",
        ),
        ("frozen-layer note, no-progress", "no-progress warning, frozen-layer note"),
        # another optimizer is no cause beside an option that is too strong
        (
            "other-optimizer, strong-weight-decay",
            "strong-weight-decay warning, other-optimizer warning < strong-weight-decay",
        ),
        # a cut is blamed before layers without activation
        (
            "linear-layers, no-gradient, no-progress error",
            "no-gradient error, no-progress error < no-gradient, linear-layers warning",
        ),
        # the group with the worst finding comes first, whatever its cause says of itself
        (
            "alike-inputs, exploding-signal error, weight-scale",
            "weight-scale error, exploding-signal error < weight-scale, alike-inputs warning",
        ),
        # answers that are read are not why training is stuck
        (
            "later-inputs-seen error, double-softmax, stuck",
            "later-inputs-seen error, double-softmax warning, stuck warning < double-softmax",
        ),
        ("later-inputs-seen error, stuck", "later-inputs-seen error, stuck warning"),
    ],
)
def test_findings_stand_under_their_cause(given, told):
    found = grouped(made(*each.split()) for each in given.split(", "))
    words = (f"{f.name} {f.severity}" + f" < {f.follows}" * bool(f.follows) for f in found)
    assert ", ".join(words) == told


def test_causes_of_causes_are_followed_to_the_end():
    names = ("directional-gradient-vanishing", "rank-collapse")
    more = (made("sigmoid-stack"), made("unscaled-inputs"))
    found = grouped([*(made(name, "error") for name in names), *more])
    assert (found[0].name, found[0].severity) == ("unscaled-inputs", "error")
    assert {f.follows for f in found[1:]} <= {"unscaled-inputs", ""}


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


@pytest.mark.parametrize("kind", [*KINDS, None], ids=lambda kind: kind.name if kind else "a user's")
def test_what_a_program_that_learns_is_told_is_no_error(kind):
    told = [borne(made("a", severity), kind).severity for severity in ("error", "warning", "note")]
    stands = kind is not None and (kind.proven or kind.even_if_it_learns)
    assert told == (["warning", "warning", "note"] if stands else ["note"] * 3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_before_training_has_had_its_say_an_error_is_one_that_is_proven(kind):
    found = [made(kind.name, severity) for severity in ("error", "warning", "note")]
    told = [f.severity for f in unproven(found)]
    assert told == ["error" if kind.proven else "warning", "warning", "note"]

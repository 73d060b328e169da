"""Findings stand under the deepest cause that is there."""

from sigmascope.diagnosis.causes import BRINGS, grouped
from sigmascope.diagnosis.rules import RULES
from sigmascope.records import Finding


def finding(name, severity="warning"):
    return Finding(name, "here", severity, (), "It is so.", "Somebody 2000", ())


def test_consequences_follow_their_cause_and_raise_it():
    found = grouped([
        finding("loud-output"),
        finding("exploding-signal", "error"),
        finding("weight-scale"),
        finding("frozen-layer"),
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
    (one,) = grouped([finding("exploding-signal", "error")])
    assert not one.follows


def test_causes_of_causes_are_followed_to_the_end():
    found = grouped([
        finding("directional-gradient-vanishing", "error"),
        finding("rank-collapse", "error"),
        finding("sigmoid-stack"),
        finding("unscaled-inputs"),
    ])  # fmt: skip
    assert found[0].name == "unscaled-inputs"
    assert found[0].severity == "error"
    assert {f.follows for f in found[1:]} <= {"unscaled-inputs", ""}


def test_no_progress_is_laid_to_the_likeliest_cause():
    found = grouped([finding("no-progress", "error"), finding("frozen-layer")])
    assert [(f.name, f.follows) for f in found] == [
        ("frozen-layer", ""),
        ("no-progress", "frozen-layer"),
    ]
    assert grouped([finding("no-progress", "error")])[0].follows == ""


def test_another_optimiser_is_no_cause_beside_an_option_that_is_too_strong():
    found = grouped([finding("other-optimiser"), finding("strong-weight-decay")])
    assert [(f.name, f.follows) for f in found] == [
        ("strong-weight-decay", ""),
        ("other-optimiser", "strong-weight-decay"),
    ]


def test_a_cut_is_blamed_before_layers_without_activation():
    found = grouped(
        [finding("linear-layers"), finding("no-gradient"), finding("no-progress", "error")]
    )
    assert [(f.name, f.severity) for f in found] == [
        ("no-gradient", "error"),
        ("no-progress", "error"),
        ("linear-layers", "warning"),
    ]


def test_nothing_brings_itself_in_a_circle():
    """Following causes ends, whatever is present."""
    names = set(BRINGS) | {n for brings in BRINGS.values() for n in brings}
    found = grouped(finding(n) for n in sorted(names))
    assert len(found) == len(names)
    assert all(f.follows != f.name for f in found)


def test_rules_are_listed_once():
    assert len(set(RULES)) == len(RULES)


def test_the_group_with_the_worst_finding_comes_first():
    """Whatever its cause says of itself, and however deep the causes of others are."""
    found = grouped([
        finding("alike-inputs"),
        finding("exploding-signal", "error"),
        finding("weight-scale"),
    ])  # fmt: skip
    assert [f.name for f in found] == ["weight-scale", "exploding-signal", "alike-inputs"]


def test_a_note_is_not_why_nothing_is_learned():
    note, no_progress = finding("frozen-layer", "note"), finding("no-progress", "warning")
    assert {f.name: (f.severity, f.follows) for f in grouped([note, no_progress])} == {
        "no-progress": ("warning", ""),
        "frozen-layer": ("note", ""),
    }


def test_answers_that_are_read_are_not_why_training_is_stuck():
    leak, stuck = finding("later-inputs-seen", "error"), finding("stuck")
    found = {f.name: f for f in grouped([leak, finding("double-softmax"), stuck])}
    assert found["stuck"].follows == "double-softmax"
    assert grouped([leak, stuck])[1].follows == ""

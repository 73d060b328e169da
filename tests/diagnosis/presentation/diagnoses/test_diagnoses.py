import math
from dataclasses import replace

import pytest
from torch import nn

from sigmascope.diagnosis import Diagnosis, Program
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.diagnosis.presentation.diagnoses import SHOWN, score
from sigmascope.report import text


@pytest.fixture(scope="module")
def cure():
    program = Program(nn.Linear(2, 2), data=None)
    lines = ("mean = x.mean(0)", "x = (x - mean) / 255")
    return Cure("scale", "unscaled-inputs", lines, program, 0.25, 0.905, 40)


def test_a_diagnosis_is_its_profile_with_its_findings(trained, findings):
    assert text(Diagnosis(trained, findings)) == text(trained, findings)


def test_cures_stand_behind_it(trained, findings, cure):
    found, cures = Diagnosis(trained, findings), Cures((cure,), {})
    assert text(found, cures) == f"{text(found)}\n\n{text(cures)}"


def test_what_was_tried_is_in_a_table_with_its_lines_below(cure):
    said = text(Cures((cure, replace(cure, name="rate", after=0.5)), {}))
    head, titles, first, second, *_ = said.splitlines()
    assert head.endswith("the best first")
    assert titles.split() == ["cure", "meant", "for", "before", "after", "steps"]
    assert first.split() == ["scale", "unscaled-inputs", "0.25", "0.91", "40"]
    assert second.split() == ["rate", "unscaled-inputs", "0.25", "0.50", "40"]
    assert "scale: 0.25 → 0.91 after 40 steps\nmean = x.mean(0)\nx = (x - mean) / 255" in said
    assert "Declined" not in said


def test_scores_on_other_samples_have_a_column_where_there_are_any(cure):
    said = text(Cures((replace(cure, others=0.5), replace(cure, name="rate")), {}))
    _, titles, first, second, *_ = said.splitlines()
    assert titles.split() == ["cure", "meant", "for", "before", "after", "on", "others", "steps"]
    assert first.split() == ["scale", "unscaled-inputs", "0.25", "0.91", "0.50", "40"]
    assert second.split() == ["rate", "unscaled-inputs", "0.25", "0.91", "–", "40"]
    assert "not trained on" in said
    assert "not trained on" not in text(Cures((cure,), {}))


def test_the_lines_of_the_best_alone_are_printed(cure):
    many = tuple(replace(cure, name=f"cure-{i}", patch=(f"line {i}",)) for i in range(SHOWN + 2))
    said = text(Cures(many, {}))
    assert all(f"cure-{i} " in said for i in range(SHOWN + 2))
    assert [f"line {i}" in said for i in range(SHOWN + 2)] == [True] * SHOWN + [False] * 2


def test_where_nothing_was_tried_it_is_said_with_what_was_declined():
    said = text(Cures((), {"insert-activations": "there are no linear layers in a row"}))
    assert said.startswith("No cure: what was thought of does not apply, or changes little.\n")
    assert "Declined" in said
    assert "insert-activations  there are no linear layers in a row" in said


def test_where_nothing_was_found_no_cure_is_missed():
    assert text(Cures((), {})).strip() == "No cure: nothing was found that one is meant for."


def test_one_cure_is_its_lines(cure):
    assert text(cure).splitlines()[1:] == [
        "scale: 0.25 → 0.91 after 40 steps",
        "mean = x.mean(0)",
        "x = (x - mean) / 255",
    ]


def test_lines_and_reasons_never_act(cure):
    odd = replace(cure, patch=("x = '\x1b[31m'  # [red]",))
    said = text(Cures((odd,), {"other": "\x07 rings [bold]"}))
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "# [red]" in said
    assert "rings [bold]" in said


def test_a_score_that_there_was_not_is_a_dash():
    assert [score(x) for x in (math.nan, 0.0, 0.996, -1.0)] == ["–", "0.00", "1.00", "-1.00"]

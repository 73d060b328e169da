"""Designs in order, as text and as JSON."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, sources
from sigmascope.core.records import Estimate
from sigmascope.diagnosis import Diagnosis, Program
from sigmascope.diagnosis.compression import compression
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.diagnosis.presentation import Ranking
from sigmascope.diagnosis.presentation.results import layer_values, score
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.models import networks
from sigmascope.report import text

SHOWN = 3


@pytest.fixture(scope="module")
def cure():
    program = Program(nn.Linear(2, 2), data=None)
    lines = ("mean = x.mean(0)", "x = (x - mean) / 255")
    return Cure("scale", "unscaled-inputs", lines, program, 0.25, 0.905, 40)


def test_a_diagnosis_is_its_profile_with_its_findings_and_its_cures_behind(trained, findings, cure):
    found, cures = Diagnosis(trained, findings), Cures((cure,), {})
    assert text(found) == text(trained, findings)
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


def test_values_of_layers_leave_the_output_out(profile):
    values = layer_values(profile, "participation ratio", "samples")
    assert len(values) == len(profile.layers)
    assert layer_values(profile, "participation ratio", "channels") == []


def design(name, place, value):
    told = Estimate(value, value / 2, (1 + value) / 2, "said", 0.1)
    return Ranked(name, place, told, Estimate.exactly(value), 3e-3, 60, f"{name} was seen.")


FOUND = Ranking((design("wide", 1, 0.9), design("deep\x1b[31m", 2, 0.25)))


def test_every_design_has_its_line_and_its_reason():
    text = report.text(FOUND, width=90)
    lines = text.splitlines()
    assert lines[3].split() == ["design", "forecast", "between", "fits", "rate", "passes"]
    assert lines[4].split()[:5] == ["1", "wide", "90%", "45%", "and"]
    assert "95%" in lines[4]
    assert lines[4].split()[-3:] == ["0.90", "0.003", "60"]
    assert "wide was seen." in text
    assert "\x1b" not in text
    assert all(len(line) <= 90 for line in lines)


def test_its_json_holds_every_field():
    form = report.json_form(FOUND)
    assert form["schema"] == "sigmascope/ranking/1"
    first = form["designs"][0]
    assert set(first) == {"name", "place", "forecast", "probability", "rate", "passes", "why"}
    assert first["forecast"]["high"] == 0.95


@pytest.fixture(scope="module")
def treatment():
    data = sources.open_data("digits", samples=16)
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=12, width=16, generator=g)
    remedy = diagnosis.remedies.BatchNormalisation()
    return diagnosis.treat(model, data.inputs, remedy, targets=data.targets, loss=F.cross_entropy)


def test_findings_and_curves_of_both(treatment):
    text = report.text(treatment, width=100)
    assert "rank-collapse" in text
    assert "→  cured" in text
    assert "Probability that plain training fits: 0." in text
    assert max(map(len, text.splitlines())) <= 100
    ends = [line for line in text.splitlines() if line.startswith("participation ratio")]
    assert "last   1 → " in ends[0]


def test_the_list_names_what_does_not_apply_in_text_and_in_json(treatment):
    found = diagnosis.RemedyTrials((treatment,), {"x": "It needs y."})
    said = report.text(found, width=80)
    assert "Not applicable" in said
    assert "It needs y." in said
    again = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert again["treatments"][0]["remedy"] == "batch-norm"
    assert again["normalisation"] is None
    assert again["declined"] == {"x": "It needs y."}


@pytest.fixture(scope="module")
def found():
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40))
    with torch.no_grad():
        u, v = torch.randn(40, 2, generator=g), torch.randn(2, 40, generator=g)
        model[2].weight.copy_(u @ v / 6)
    return compression(model, torch.randn(200, 12, generator=g), tolerance=0.05)


def test_layers_and_then_the_code_that_makes_them(found):
    said = report.text(found, width=60)
    assert "output" in said
    patch = found.patch()
    assert patch
    assert said.rstrip().endswith(patch.splitlines()[-1])


def test_nothing_to_compress_has_no_code():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4))
    found = compression(model, torch.randn(64, 4), tolerance=1e-6)
    assert "Linear(" not in report.text(found)


def test_the_form_has_the_code_in_lines_and_no_model(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["patch"] == found.patch().splitlines()
    assert "model" not in form
    assert form["layers"][0]["rank"] == found.layers[0].rank
    assert set(form["layers"][0]["change"]) == {"value", "low", "high", "how", "risk"}

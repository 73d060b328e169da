"""Several results of one kind are shown, written and listed as one; and so is every single one."""

import json

import pytest
import torch
from torch import nn

import sigmascope as ss
from sigmascope import report
from sigmascope.core.records import Check, Estimate, Finding, Profile, ScanPlan, Verdict
from sigmascope.diagnosis.presentation import Ranking
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.diagnosis.treatments import RemedyTrials, Treatment
from sigmascope.report import Findings, Results
from sigmascope.theory.presentation import Checks
from tests.made_results import made, results

WAYS = {"text": report.text, "json": report.json_form, "rows": report.table}
EACH = pytest.mark.parametrize("kind", results(), ids=lambda kind: kind.__name__)


def finding(name, follows=""):
    return Finding(name, "fc", "error", (), "It is.", "", (), follows)


@EACH
def test_every_result_is_shown_as_text_and_in_a_notebook(kind):
    one = made(kind)
    said = report.text(one)
    assert said.strip()
    assert repr(one).split("\n")[0] == said.split("\n")[0]
    assert one._repr_html_().startswith("<pre ")


@EACH
def test_every_result_is_strict_json_that_says_what_it_is(kind):
    form = json.loads(json.dumps(report.json_form(made(kind)), allow_nan=False))
    assert next(iter(form)) == "schema"
    assert form["schema"].startswith("sigmascope/")
    assert len(form) > 1


@EACH
def test_every_result_has_rows(kind):
    counts = {len(column) for column in report.table(made(kind)).values()}
    assert len(counts) == 1


@EACH
def test_several_are_taken_by_whatever_takes_one(kind):
    several = [made(kind), made(kind)]
    for of, take in zip((tuple, list, iter), WAYS.values(), strict=True):
        assert len(take(of(several))) > 1


@pytest.mark.parametrize("wrong", [3, "a text", object(), (3, 4), ["a"], {"a": 1}, Estimate])
def test_what_is_no_result_is_refused(wrong):
    for take in WAYS.values():
        with pytest.raises(TypeError, match="A result of this library was expected, got "):
            take(wrong)


def test_a_record_that_holds_a_model_is_not_plain_values():
    with pytest.raises(TypeError, match=r"were expected, got .*Program, which holds a model"):
        report.json_form(ss.Program(nn.Linear(2, 2), None))


def test_results_of_two_kinds_are_refused():
    for take in WAYS.values():
        with pytest.raises(TypeError, match="of one kind were expected, got Finding and Check"):
            take((made(Finding), made(Check)))


def test_findings_stand_under_their_headline_each_with_what_follows():
    several = (finding("cause"), finding("effect", "cause"))
    said = report.text(several)
    assert said.startswith("1 cause: 1 error; 1 finding follows from it; ")
    assert said == report.text(Findings(several)) == report.text(list(several))
    form = report.json_form(several)
    assert [f["follows"] for f in form["findings"]] == ["", "cause"]
    assert form["schema"] == "sigmascope/findings/1"
    assert report.table(several)["name"] == ["cause", "effect"]


def test_a_form_of_its_own_is_the_encoded_record():
    form = report.json_form(finding("cause"))
    assert form["schema"] == "sigmascope/finding/1"
    assert (form["name"], form["severity"]) == ("cause", "error")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (Check, Checks),
        (Ranked, Ranking),
        (Treatment, lambda several: RemedyTrials(several, {})),
        (ScanPlan, Results),
    ],
)
def test_several_look_as_the_result_that_holds_them(kind, shown):
    several = (made(kind), made(kind))
    for way in WAYS.values():
        assert way(several) == way(shown(several))


def test_results_without_a_common_look_stand_below_one_another():
    one = made(Profile)
    said = report.text((one, one))
    assert said == f"{report.text(one)}\n\n{report.text(one)}"
    assert [f["schema"] for f in report.json_form([one, one])["results"]] == [
        "sigmascope/profile/3"
    ] * 2
    count = len(report.table(one)["site"])
    assert report.table([one, one])["result"] == [0] * count + [1] * count


def test_of_none_there_is_nothing_to_show():
    assert report.text(()) == "There are none."
    assert report.text(Findings(())) == "No findings."
    assert report.json_form(()) == {"schema": "sigmascope/results/1", "results": []}
    assert report.table(()) == {"result": []}


def test_what_judge_and_check_give_is_shown():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.init.zeros_(model[0].weight)
    x = torch.randn(16, 4)
    findings = ss.judge(ss.profile(model, x))
    assert findings[0].name in ss.text(findings)
    checks = tuple(ss.check(ss.Subject(model, x)))
    assert checks[0].verdict in set(Verdict)
    assert ss.text(ss.check(ss.Subject(model, x))) == ss.text(Checks(checks)) == ss.text(checks)


def test_what_commands_show_is_a_result():
    assert {Checks, Ranking, RemedyTrials, Ranked} <= set(results())

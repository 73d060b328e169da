import json

import pytest
import torch
from torch import nn

from sigmascope import report, survey, theory
from sigmascope.models.networks import resnet
from sigmascope.theory.bottleneck import Trained, bottleneck, read_sweep
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.conservation import broken_balances
from tests.diagnosis.rules.test_theorems import Custom
from tests.theory.bottleneck.test_verdicts import narrow, samples
from tests.theory.le2022.conservation.wrong_backward import Wrong


def net(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4, bias=False), nn.Linear(4, 2)
        )


X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


def test_formulas_and_reasons_are_readable():
    found = conservation.conserved(net(), X)
    said, form = report.text(found), report.json_form(found)
    assert "‖2.weight[:, u]‖² - ‖0.weight[u]‖² - 0.bias[u]²" in said
    assert "W₂ᵀW₂ - W₁W₁ᵀ with W₂ = 3.weight, W₁ = 2.weight" in said
    assert "only linear maps between" in said
    assert max(map(len, said.splitlines())) <= 100
    assert json.loads(json.dumps(form, allow_nan=False)) == form


def test_long_lists_are_cut_and_whole_on_request():
    model = resnet(inputs=(3, 16, 16), outputs=4, width=4)
    found = conservation.conserved(model, torch.randn(2, 3, 16, 16))
    short, whole = report.text(found), report.text(found, whole=True)
    assert "more (--whole lists them)" in short
    assert "more" not in whole.replace("more than", "")
    assert whole.count("\n") > short.count("\n")


def test_a_broken_balance_comes_first():
    found = conservation.conserved(Custom(Wrong.apply), X)
    said = report.text(found)
    assert said.index("BROKEN") < said.index("In no balance")
    assert "conserves nothing" in said
    assert report.json_form(found)["broken"][0]["tensors"] == ["b.weight", "a.weight", "a.bias"]


def test_the_terminal_report_has_a_section_of_balances():
    said = report.text(survey.profile(net(), X, views=["balances"]), ())
    assert "Balances" in said
    assert "alignment" in said
    assert "Balances" not in report.text(survey.profile(net(), X, views=["weights"]), ())


def test_comparisons_show_the_most_changed_first():
    before, after = net(), net()
    with torch.no_grad():
        after[0].weight *= 5
        after[2].weight *= 1.2
    found = theory.compare(before, after, batch=X, learning_rate=0.01, loss_drop=0.1)
    findings = broken_balances(found.drifts)
    said = report.text(found, findings)
    table = said[said.index("before") :]
    assert table.index("0.weight") < table.index("2.weight")
    assert "balance-broken at 2.weight ~ 0.weight ~ 0.bias" in said
    assert "violated" in said
    form = report.json_form(found, findings)
    assert json.loads(json.dumps(form, allow_nan=False)) == form
    assert form["findings"][0]["name"] == "balance-broken"


def test_comparisons_without_a_verdict_say_why():
    found = theory.compare(net(), net(1), batch=X)
    said = " ".join(report.text(found).split())
    assert "not so: steps are known (but the learning rate and the fall of the loss" in said


def test_the_text_says_it_first_and_lists_every_layer():
    model, x = narrow(2, passes=3), samples()
    found = bottleneck(model, x, targets=model(x).detach())
    said = report.text(found)
    assert said.startswith("OVERESTIMATING  The function uses 2 dimensions")
    assert "passes on" in said
    firsts = [line.split()[:1] for line in said.splitlines()]
    assert all([site] in firsts for site in ("0", "4", "10"))


def test_the_form_is_strict_json():
    found = bottleneck(narrow(1), samples())
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/bottleneck/1"
    assert form["rank"]["value"] == 1
    assert {e["name"] for e in form["evidence"]} >= {"inner dimension", "relative weight rank"}


@pytest.fixture(scope="module")
def found():
    return theory.bottleneck.predict(8, 400, layers=200, generator=torch.Generator().manual_seed(0))


def test_the_text_answers_first(found):
    lines = report.text(found, width=100).splitlines()
    assert lines[0] == (
        "Random linear layers of width 8, depth 400, no skip connections, gaussian weights."
    )
    assert lines[2].startswith("Without normalisation: collapses.")
    assert any(line.startswith("With batch normalisation: ") for line in lines)
    assert max(map(len, lines)) <= 100


def test_the_form_of_a_prediction_is_strict_json(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/prediction/1"
    assert form["gamma"] is None
    assert form["collapse_depth"]["value"] == found.collapse.value
    assert len(form["checks"]) == len(found.checks)


def trained(depth, ridge=0.001, fits=True):
    return Trained(
        depth, ridge, 0, 1e-3, 2.0 * depth, (2, 2, 3), (2, 2, 2), 1.5, fits, ((0.0, 1.0),)
    )


@pytest.fixture
def sweep():
    return read_sweep([trained(4), trained(8), trained(12, fits=False)])


def test_a_row_a_network_under_the_verdict(sweep):
    said = report.text(sweep)
    assert " ".join(said.split()).startswith(" ".join(sweep.says.split())[:60])
    assert "does not fit" in said
    assert "2 [2, 3]" in said
    assert "ridge" not in said.splitlines()[3]
    assert "ridge" in report.text(read_sweep([trained(4), trained(4, ridge=0.01)]))


def test_the_form_has_every_field_of_every_network(sweep):
    form = json.loads(json.dumps(report.json_form(sweep), allow_nan=False))
    assert form["schema"] == "sigmascope/sweep/1"
    assert [n["depth"] for n in form["networks"]] == [4, 8, 12]
    assert form["networks"][0]["kind"] == sweep.networks[0].kind
    assert form["networks"][0]["coordinates"] == [[0.0, 1.0]]
    assert form["segments"][0]["slope"].keys() >= {"value", "low", "high"}

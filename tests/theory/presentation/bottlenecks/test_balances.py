"""Balances and comparisons as a reader sees them."""

import json

import torch
from torch import nn

from sigmascope import report, survey, theory
from sigmascope.networks import resnet
from sigmascope.theory import le2022
from sigmascope.theory.le2022.conservation import broken_balances
from tests.diagnosis.rules.test_theorems import Custom
from tests.theory.le2022.conservation.wrong_backward import Wrong


def net(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4, bias=False), nn.Linear(4, 2)
        )


X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


def test_formulas_and_reasons_are_readable():
    said = report.text(le2022.conservation.conserved(net(), X))
    assert "‖2.weight[:, u]‖² - ‖0.weight[u]‖² - 0.bias[u]²" in said
    assert "W₂ᵀW₂ - W₁W₁ᵀ with W₂ = 3.weight, W₁ = 2.weight" in said
    assert "only linear maps between" in said
    assert max(map(len, said.splitlines())) <= 100


def test_long_lists_are_cut_and_whole_on_request():
    model = resnet(inputs=(3, 16, 16), outputs=4, width=4)
    found = le2022.conservation.conserved(model, torch.randn(2, 3, 16, 16))
    short, whole = report.text(found), report.text(found, whole=True)
    assert "more (--whole lists them)" in short
    assert "more" not in whole.replace("more than", "")
    assert whole.count("\n") > short.count("\n")


def test_a_broken_balance_comes_first():
    found = le2022.conservation.conserved(Custom(Wrong.apply), X)
    said = report.text(found)
    assert said.index("BROKEN") < said.index("In no balance")
    assert "conserves nothing" in said
    assert report.json_form(found)["broken"][0]["tensors"] == ["b.weight", "a.weight", "a.bias"]


def test_its_json_is_strict():
    form = report.json_form(le2022.conservation.conserved(net(), X))
    assert json.loads(json.dumps(form, allow_nan=False)) == form


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


def test_every_kind_has_words():
    model = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2))
    words = {
        i.kind: le2022.conservation.reason(i)
        for i in le2022.conservation.invariants(model.double(), X)
    }
    assert set(words) == {"norm", "neuron", "column sum"}
    assert "divided out again; up to the eps" in words["norm"]
    assert "a gain of each unit" in words["neuron"]
    assert "subtracted again" in words["column sum"]
